// SPDX-License-Identifier: MIT OR Apache-2.0
//
// transload_device.glsl: what a kernel in GLSL needs to work on messages of transload, as SPIR-V for Vulkan.
//
// A kernel says first which kind it is, then includes this file:
//
//     #version 450
//     #extension GL_GOOGLE_include_directive : require
//     #define TRANSLOAD_BATCH      for Stream::launch: one batch, and an output for each message
//     #define TRANSLOAD_QUEUES     or for Stream::dispatch: takes from a queue, gives to a queue
//     #include "transload_device.glsl"
//     void main() { ... }
//
// and is compiled, with a name of its own for its function, by
//
//     glslangValidator -V --target-env vulkan1.1 -I. -e NAME --source-entrypoint main FILE.comp -o FILE.spv
//
// A kernel runs many times side by side, with numbers from 0 that transload_index() gives. Memory is reached by words of 32
// bits, as not all devices have bytes; messages may begin at any byte, so transload_byte() puts them together.
#ifndef TRANSLOAD_DEVICE_GLSL
#define TRANSLOAD_DEVICE_GLSL

layout(local_size_x = 64) in;

uint transload_index() {
    return gl_GlobalInvocationID.x;
}

#ifdef TRANSLOAD_BATCH

layout(std430, set = 0, binding = 0) readonly buffer TransloadSlots { uint transload_slots[]; };
layout(std430, set = 0, binding = 1) buffer TransloadOutput { uint transload_outputs[]; };
layout(push_constant) uniform TransloadParameters {
    uint transload_slots_at;
    uint transload_messages;
    uint transload_slot_bytes;
    uint transload_prefix_bytes;
    uint transload_outputs_at;
    uint transload_output_bytes;
};

// How many messages there are. A kernel also runs for some numbers behind the last: it returns at once for them.
uint transload_count() {
    return transload_messages;
}

uint transload_byte_at(uint at) {
    return transload_slots[at / 4] >> 8 * (at % 4) & 0xff;
}

// A byte of the payload of a message.
uint transload_byte(uint i, uint byte) {
    return transload_byte_at(transload_slots_at + i * transload_slot_bytes + transload_prefix_bytes + byte);
}

// How many bytes the payload has: what stands in front of it, or the whole slot.
uint transload_length(uint i) {
    uint most = transload_slot_bytes - transload_prefix_bytes;
    if (transload_prefix_bytes != 4)
        return most;
    uint at = transload_slots_at + i * transload_slot_bytes;
    uint length = transload_byte_at(at) | transload_byte_at(at + 1) << 8 | transload_byte_at(at + 2) << 16 |
                  transload_byte_at(at + 3) << 24;
    return min(length, most);
}

// Writes a word, 4 bytes, of the output of a message; its place has transload_output_bytes / 4 of them.
void transload_set_output(uint i, uint word, uint value) {
    transload_outputs[(transload_outputs_at + i * transload_output_bytes) / 4 + word] = value;
}

// Says how many bytes of that place are the output, at most transload_output_bytes. Not called, all of them are.
void transload_set_length(uint i, uint bytes) {
    transload_outputs[i] = bytes;
}

// Says that the message has no output.
void transload_drop(uint i) {
    transload_set_length(i, 0xffffffffu);
}

#endif

#ifdef TRANSLOAD_QUEUES

layout(std430, set = 0, binding = 0) coherent buffer TransloadMemory { uint transload_memory[]; };
layout(push_constant) uniform TransloadParameters {
    uint transload_inbound_at;
    uint transload_outbound_at;
};

// The queue that the host fills, and the one that it empties: where they begin, in words.
#define TRANSLOAD_INBOUND (transload_inbound_at / 4)
#define TRANSLOAD_OUTBOUND (transload_outbound_at / 4)

// No slot: the queue is empty, or full.
const uint TRANSLOAD_NONE = 0xffffffffu;

// Where the words of a queue are, in words from its beginning.
const uint TRANSLOAD_CAPACITY = 0;
const uint TRANSLOAD_MESSAGE_SIZE = 1;
const uint TRANSLOAD_MARKS_AT = 2;
const uint TRANSLOAD_SLOTS_AT = 3;
const uint TRANSLOAD_TAIL = 32;
const uint TRANSLOAD_HEAD = 48;
const uint TRANSLOAD_SKIPPED = 49;

// Bytes of each message: a multiple of 4.
uint transload_message_size(uint queue) {
    return transload_memory[queue + TRANSLOAD_MESSAGE_SIZE];
}

// Where the message in a slot begins, in words of transload_memory.
uint transload_slot(uint queue, uint slot) {
    return queue + transload_memory[queue + TRANSLOAD_SLOTS_AT] / 4 + slot * (transload_message_size(queue) / 4);
}

uint transload_mark(uint queue, uint slot) {
    return queue + transload_memory[queue + TRANSLOAD_MARKS_AT] / 4 + slot;
}

// Takes the oldest message of the inbound queue: its slot, which is this run's to read until the kernel ends, or
// TRANSLOAD_NONE. Each message is taken once, whoever else takes at the same time.
uint transload_take(uint queue) {
    uint tail = transload_memory[queue + TRANSLOAD_TAIL];
    uint capacity = transload_memory[queue + TRANSLOAD_CAPACITY];
    for (;;) {
        uint head = transload_memory[queue + TRANSLOAD_HEAD];
        if (head == tail)
            return TRANSLOAD_NONE;
        if (atomicCompSwap(transload_memory[queue + TRANSLOAD_HEAD], head, head + 1) != head)
            continue;
        uint slot = head & (capacity - 1);
        if (transload_memory[transload_mark(queue, slot)] == 0)
            return slot;
    }
}

// Gives a message to the outbound queue: the slot that is this run's to write until the kernel ends, or TRANSLOAD_NONE if
// the queue is full. All of the message goes to the host, so all of it is to be written.
uint transload_give(uint queue) {
    uint head = transload_memory[queue + TRANSLOAD_HEAD];
    uint capacity = transload_memory[queue + TRANSLOAD_CAPACITY];
    for (;;) {
        uint tail = transload_memory[queue + TRANSLOAD_TAIL];
        if (tail - head >= capacity)
            return TRANSLOAD_NONE;
        if (atomicCompSwap(transload_memory[queue + TRANSLOAD_TAIL], tail, tail + 1) != tail)
            continue;
        uint slot = tail & (capacity - 1);
        transload_memory[transload_mark(queue, slot)] = 0;
        return slot;
    }
}

// Gives nothing after all: the host steps over the slot. A kernel that is to lose nothing asks for the room first, then for
// the message, and skips the room if there is none.
void transload_skip(uint queue, uint slot) {
    transload_memory[transload_mark(queue, slot)] = 1;
    atomicAdd(transload_memory[queue + TRANSLOAD_SKIPPED], 1);
}

#endif
#endif
