/* Checks that each byte of a generated message follows from its first 8, as `word_at` in finding.rs says. The output is a
 * record of 16 bytes: those 8, the length, and 1 if all is right, else 2. OpenCL C and CUDA C at once: check.ptx was
 * made of it, so that nobody needs a compiler for CUDA; check.comp is the same in GLSL. */
#include "transload_device.h"

TRANSLOAD_KERNEL check_pattern(TRANSLOAD_BATCH) {
    transload_uint i = transload_index();
    if (i >= transload_count())
        return;
    TRANSLOAD_GLOBAL const transload_byte *message = transload_message(i);
    TRANSLOAD_GLOBAL transload_uint *record = (TRANSLOAD_GLOBAL transload_uint *)transload_output(i);
    transload_uint length = transload_length(i), verdict = 1;
    transload_ulong stamp = 0, word = 0;
    for (transload_uint at = 0; at < length && at < 8; ++at)
        stamp |= (transload_ulong)message[at] << 8 * at;
    for (transload_uint at = 8; at < length; ++at) {
        if (at % 8 == 0) {
            word = (stamp ^ at / 8) * 0x9E3779B97F4A7C15;
            word ^= word >> 32;
        }
        if (message[at] != (transload_byte)(word >> 8 * (at % 8)))
            verdict = 2;
    }
    /* A length in front that is beyond the slot is none. */
    for (transload_uint at = 0; at < transload_prefix_bytes; ++at)
        if ((message - transload_prefix_bytes)[at] != (transload_byte)(length >> 8 * at))
            verdict = 2;
    record[0] = (transload_uint)stamp;
    record[1] = (transload_uint)(stamp >> 32);
    record[2] = length;
    record[3] = verdict;
    transload_set_length(i, 16);
}
