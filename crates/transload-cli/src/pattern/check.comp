// Checks that each byte of a generated message follows from its first 8, as `word_at` in finding.rs says. The output is a
// record of 16 bytes: those 8, the length, and 1 if all is right, else 2. Compiled, in this folder, by
//
//     glslangValidator -V --target-env vulkan1.1 -I../../../transload/src/device/header -e check_pattern --source-entrypoint main -o check.spv check.comp
#version 450
#extension GL_GOOGLE_include_directive : require
#define TRANSLOAD_BATCH
#include "transload_device.glsl"

// 64 bits are two halves, as not all devices have more.
const uint PRIME_LOW = 0x7F4A7C15u;
const uint PRIME_HIGH = 0x9E3779B9u;

void main() {
    uint i = transload_index();
    if (i >= transload_count())
        return;
    uint length = transload_length(i), verdict = 1;
    uint low = 0, high = 0;
    for (uint at = 0; at < min(length, 4u); ++at)
        low |= transload_byte(i, at) << 8 * at;
    for (uint at = 4; at < min(length, 8u); ++at)
        high |= transload_byte(i, at) << 8 * (at - 4);
    uint word_low = 0, word_high = 0;
    for (uint at = 8; at < length; ++at) {
        if (at % 8 == 0) {
            uint mixed = low ^ at / 8;
            umulExtended(mixed, PRIME_LOW, word_high, word_low);
            word_high += mixed * PRIME_HIGH + high * PRIME_LOW;
            word_low ^= word_high;
        }
        uint half_word = at % 8 < 4 ? word_low : word_high;
        if (transload_byte(i, at) != (half_word >> 8 * (at % 4) & 0xff))
            verdict = 2;
    }
    // A length in front that is beyond the slot is none.
    uint slot = transload_slots_at + i * transload_slot_bytes;
    for (uint at = 0; at < transload_prefix_bytes; ++at)
        if (transload_byte_at(slot + at) != (length >> 8 * at & 0xff))
            verdict = 2;
    transload_set_output(i, 0, low);
    transload_set_output(i, 1, high);
    transload_set_output(i, 2, length);
    transload_set_output(i, 3, verdict);
    transload_set_length(i, 16);
}
