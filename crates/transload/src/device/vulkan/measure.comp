// Adds up the words of each message of a batch: what kernels over small batches cost is how they reach the messages. Compiled,
// in this folder, by
//
//     glslangValidator -V --target-env vulkan1.1 -I../header -e transload_measure --source-entrypoint main -o measure.spv measure.comp
#version 450
#extension GL_GOOGLE_include_directive : require
#define TRANSLOAD_BATCH
#include "transload_device.glsl"

void main() {
    uint i = transload_index();
    if (i >= transload_count())
        return;
    // The messages are of whole words, and begin at one.
    uint first = (transload_slots_at + i * transload_slot_bytes) / 4, sum = 0;
    for (uint word = 0; word < transload_slot_bytes / 4; ++word)
        sum += transload_slots[first + word];
    transload_set_output(i, 0, sum);
}
