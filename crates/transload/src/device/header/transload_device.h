/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * transload_device.h: what a kernel in OpenCL C or CUDA C needs to work on messages of transload.
 *
 * A kernel of one of two kinds is written with it:
 *
 *   TRANSLOAD_KERNEL name(TRANSLOAD_BATCH)  { ... }    for Stream::launch: one batch, and an output for each message
 *   TRANSLOAD_KERNEL name(TRANSLOAD_QUEUES) { ... }    for Stream::dispatch: takes from a queue, gives to a queue
 *
 * A kernel runs many times side by side, with numbers from 0 that transload_index() gives. All numbers of bytes and
 * messages are 32 bits wide. Memory of messages is read-only in a batch kernel.
 */
#ifndef TRANSLOAD_DEVICE_H
#define TRANSLOAD_DEVICE_H

#ifdef __OPENCL_C_VERSION__
#define TRANSLOAD_KERNEL __kernel void
#define TRANSLOAD_GLOBAL __global
#define TRANSLOAD_FUNCTION static
typedef uchar transload_byte;
typedef uint transload_uint;
typedef ulong transload_ulong;
#define transload_index() ((transload_uint)get_global_id(0))
#define transload_swap_if(word, expected, wanted) atomic_cmpxchg(word, expected, wanted)
#define transload_add(word, number) atomic_add(word, number)
#else
#define TRANSLOAD_KERNEL extern "C" __global__ void
#define TRANSLOAD_GLOBAL
#define TRANSLOAD_FUNCTION static __device__ inline
typedef unsigned char transload_byte;
typedef unsigned int transload_uint;
typedef unsigned long long transload_ulong;
#define transload_index() ((transload_uint)(blockIdx.x * blockDim.x + threadIdx.x))
#define transload_swap_if(word, expected, wanted) atomicCAS((transload_uint *)(word), expected, wanted)
#define transload_add(word, number) atomicAdd((transload_uint *)(word), number)
#endif

/* --- Batches ------------------------------------------------------------------------------------------------------ */

/* The parameters of a kernel for batches. The names are the header's own: use the macros below, in the kernel itself. */
#define TRANSLOAD_BATCH                                                                                                  \
    TRANSLOAD_GLOBAL const transload_byte *transload_slots, transload_ulong transload_slots_at,                          \
        transload_uint transload_messages, transload_uint transload_slot_bytes, transload_uint transload_prefix_bytes,   \
        TRANSLOAD_GLOBAL transload_byte *transload_outputs, transload_uint transload_outputs_at,                         \
        transload_uint transload_output_bytes

/* How many messages there are. A kernel also runs for some numbers behind the last: it returns at once for them. */
#define transload_count() (transload_messages)

/* The payload of a message: not aligned. */
#define transload_message(i)                                                                                             \
    (transload_slots + transload_slots_at + (transload_ulong)(i) * transload_slot_bytes + transload_prefix_bytes)

/* How many bytes the payload has: what stands in front of it, or the whole slot. */
#define transload_length(i)                                                                                              \
    transload_payload_length(transload_message(i), transload_slot_bytes, transload_prefix_bytes)

/* The place for the output of a message: transload_output_bytes bytes, aligned to 4. */
#define transload_output(i)                                                                                              \
    (transload_outputs + transload_outputs_at + (transload_ulong)(i) * transload_output_bytes)

/* Says how many bytes of that place are the output, at most transload_output_bytes. Not called, all of them are. */
#define transload_set_length(i, bytes)                                                                                   \
    (((TRANSLOAD_GLOBAL transload_uint *)transload_outputs)[i] = (transload_uint)(bytes))

/* Says that the message has no output. */
#define transload_drop(i) transload_set_length(i, 0xffffffffu)

TRANSLOAD_FUNCTION transload_uint transload_payload_length(TRANSLOAD_GLOBAL const transload_byte *payload,
                                                           transload_uint slot_bytes, transload_uint prefix_bytes) {
    transload_uint most = slot_bytes - prefix_bytes, length;
    if (prefix_bytes != 4)
        return most;
    payload -= 4;
    length = payload[0] | (transload_uint)payload[1] << 8 | (transload_uint)payload[2] << 16 |
             (transload_uint)payload[3] << 24;
    return length < most ? length : most;
}

/* --- Queues ------------------------------------------------------------------------------------------------------- */

/* The parameters of a kernel for queues. */
#define TRANSLOAD_QUEUES                                                                                                 \
    TRANSLOAD_GLOBAL transload_byte *transload_memory, transload_ulong transload_inbound_at,                             \
        transload_ulong transload_outbound_at

/* A queue in device memory: its words and its slots. The host changes its own ends between runs of the kernel only. */
typedef TRANSLOAD_GLOBAL transload_uint *transload_queue;

/* The queue that the host fills. */
#define TRANSLOAD_INBOUND ((transload_queue)(transload_memory + transload_inbound_at))

/* The queue that the host empties. */
#define TRANSLOAD_OUTBOUND ((transload_queue)(transload_memory + transload_outbound_at))

/* No slot: the queue is empty, or full. */
#define TRANSLOAD_NONE 0xffffffffu

/* Where the words of a queue are, in words from its beginning. */
enum {
    TRANSLOAD_CAPACITY = 0,
    TRANSLOAD_MESSAGE_SIZE = 1,
    TRANSLOAD_MARKS_AT = 2,
    TRANSLOAD_SLOTS_AT = 3,
    TRANSLOAD_TAIL = 32,
    TRANSLOAD_HEAD = 48,
    TRANSLOAD_SKIPPED = 49
};

/* Bytes of each message: a multiple of 4. */
TRANSLOAD_FUNCTION transload_uint transload_message_size(transload_queue queue) {
    return queue[TRANSLOAD_MESSAGE_SIZE];
}

/* The message in a slot, aligned to 4. */
TRANSLOAD_FUNCTION TRANSLOAD_GLOBAL transload_byte *transload_slot(transload_queue queue, transload_uint slot) {
    TRANSLOAD_GLOBAL transload_byte *slots = (TRANSLOAD_GLOBAL transload_byte *)queue + queue[TRANSLOAD_SLOTS_AT];
    return slots + (transload_ulong)slot * queue[TRANSLOAD_MESSAGE_SIZE];
}

/* Takes the oldest message of the inbound queue: its slot, which is this run's to read until the kernel ends, or
 * TRANSLOAD_NONE. Each message is taken once, whoever else takes at the same time. */
TRANSLOAD_FUNCTION transload_uint transload_take(transload_queue queue) {
    TRANSLOAD_GLOBAL volatile transload_uint *words = queue;
    transload_uint tail = words[TRANSLOAD_TAIL], capacity = queue[TRANSLOAD_CAPACITY];
    for (;;) {
        transload_uint slot, head = words[TRANSLOAD_HEAD];
        if (head == tail)
            return TRANSLOAD_NONE;
        if (transload_swap_if(&queue[TRANSLOAD_HEAD], head, head + 1) != head)
            continue;
        slot = head & (capacity - 1);
        if (queue[queue[TRANSLOAD_MARKS_AT] / 4 + slot] == 0)
            return slot;
    }
}

/* Gives a message to the outbound queue: the slot that is this run's to write until the kernel ends, or TRANSLOAD_NONE
 * if the queue is full. All of the message goes to the host, so all of it is to be written. */
TRANSLOAD_FUNCTION transload_uint transload_give(transload_queue queue) {
    TRANSLOAD_GLOBAL volatile transload_uint *words = queue;
    transload_uint head = words[TRANSLOAD_HEAD], capacity = queue[TRANSLOAD_CAPACITY];
    for (;;) {
        transload_uint slot, tail = words[TRANSLOAD_TAIL];
        if (tail - head >= capacity)
            return TRANSLOAD_NONE;
        if (transload_swap_if(&queue[TRANSLOAD_TAIL], tail, tail + 1) != tail)
            continue;
        slot = tail & (capacity - 1);
        queue[queue[TRANSLOAD_MARKS_AT] / 4 + slot] = 0;
        return slot;
    }
}

/* Gives nothing after all: the host steps over the slot. A kernel that is to lose nothing asks for the room first, then
 * for the message, and skips the room if there is none. */
TRANSLOAD_FUNCTION void transload_skip(transload_queue queue, transload_uint slot) {
    queue[queue[TRANSLOAD_MARKS_AT] / 4 + slot] = 1;
    transload_add(&queue[TRANSLOAD_SKIPPED], 1u);
}

#endif
