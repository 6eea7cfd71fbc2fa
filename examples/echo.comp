// Takes messages from one queue on the device, and gives each, every byte xor 0x5a, to another. Compiled, in this folder, by
//
//     glslangValidator -V --target-env vulkan1.1 -I../crates/transload/src/device/header -e echo --source-entrypoint main -o echo.spv echo.comp
#version 450
#extension GL_GOOGLE_include_directive : require
#define TRANSLOAD_QUEUES
#include "transload_device.glsl"

void main() {
    // The room first: a message that is taken must have a place to go to.
    uint given = transload_give(TRANSLOAD_OUTBOUND);
    if (given == TRANSLOAD_NONE)
        return;
    uint taken = transload_take(TRANSLOAD_INBOUND);
    if (taken == TRANSLOAD_NONE) {
        transload_skip(TRANSLOAD_OUTBOUND, given);
        return;
    }
    uint source = transload_slot(TRANSLOAD_INBOUND, taken), target = transload_slot(TRANSLOAD_OUTBOUND, given);
    for (uint word = 0; word < transload_message_size(TRANSLOAD_INBOUND) / 4; ++word)
        transload_memory[target + word] = transload_memory[source + word] ^ 0x5a5a5a5au;
}
