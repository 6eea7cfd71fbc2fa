/* A checksum of each message: FNV-1a, 64 bits, little-endian. In CUDA C; checksum.cl is the same in OpenCL C. */
#include "transload_device.h"

TRANSLOAD_KERNEL fnv1a(TRANSLOAD_BATCH) {
    transload_uint i = transload_index();
    if (i >= transload_count())
        return;
    transload_ulong hash = 0xcbf29ce484222325;
    for (transload_uint byte = 0; byte < transload_length(i); ++byte)
        hash = (hash ^ transload_message(i)[byte]) * 0x100000001b3;
    /* What has no room is not written; the length says that there was more. */
    for (transload_uint byte = 0; byte < 8 && byte < transload_output_bytes; ++byte)
        transload_output(i)[byte] = (transload_byte)(hash >> 8 * byte);
    transload_set_length(i, 8);
}
