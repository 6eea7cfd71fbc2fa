// Keeps the messages whose first byte is even, and drops the others. Compiled, in this folder, by
//
//     glslangValidator -V --target-env vulkan1.1 -I../crates/transload/src/device/header -e keep_even --source-entrypoint main -o filter.spv filter.comp
#version 450
#extension GL_GOOGLE_include_directive : require
#define TRANSLOAD_BATCH
#include "transload_device.glsl"

void main() {
    uint i = transload_index();
    if (i >= transload_count())
        return;
    uint length = transload_length(i);
    if (length == 0 || transload_byte(i, 0) % 2 != 0) {
        transload_drop(i);
        return;
    }
    length = min(length, transload_output_bytes);
    for (uint word = 0; word < (length + 3) / 4; ++word) {
        uint value = 0;
        for (uint byte = 4 * word; byte < min(4 * word + 4, length); ++byte)
            value |= transload_byte(i, byte) << 8 * (byte % 4);
        transload_set_output(i, word, value);
    }
    transload_set_length(i, length);
}
