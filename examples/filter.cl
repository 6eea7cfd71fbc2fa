/* Keeps the messages whose first byte is even, and drops the others. In OpenCL C; filter.cu is the same in CUDA C. */
#include "transload_device.h"

TRANSLOAD_KERNEL keep_even(TRANSLOAD_BATCH) {
    transload_uint i = transload_index();
    if (i >= transload_count())
        return;
    transload_uint length = transload_length(i);
    if (length == 0 || transload_message(i)[0] % 2 != 0) {
        transload_drop(i);
        return;
    }
    if (length > transload_output_bytes)
        length = transload_output_bytes;
    for (transload_uint byte = 0; byte < length; ++byte)
        transload_output(i)[byte] = transload_message(i)[byte];
    transload_set_length(i, length);
}
