// A checksum of each message: FNV-1a, 64 bits, little-endian. Compiled, in this folder, by
//
//     glslangValidator -V --target-env vulkan1.1 -I../crates/transload/src/device/header -e fnv1a --source-entrypoint main -o checksum.spv checksum.comp
#version 450
#extension GL_GOOGLE_include_directive : require
#define TRANSLOAD_BATCH
#include "transload_device.glsl"

void main() {
    uint i = transload_index();
    if (i >= transload_count())
        return;
    // 64 bits in two halves, as not all devices have more: the prime is 2^40 + 0x1b3.
    uint low = 0x84222325u, high = 0xcbf29ce4u;
    for (uint byte = 0; byte < transload_length(i); ++byte) {
        low ^= transload_byte(i, byte);
        uint carry, product;
        umulExtended(low, 0x1b3u, carry, product);
        high = high * 0x1b3u + carry + (low << 8);
        low = product;
    }
    // What has no room is not written; the length says that there was more.
    transload_set_output(i, 0, low);
    if (transload_output_bytes >= 8)
        transload_set_output(i, 1, high);
    transload_set_length(i, 8);
}
