/* Takes messages from one queue on the device, and gives each, every byte xor 0x5a, to another. In CUDA C; echo.cl is the
 * same in OpenCL C. */
#include "transload_device.h"

TRANSLOAD_KERNEL echo(TRANSLOAD_QUEUES) {
    /* The room first: a message that is taken must have a place to go to. */
    transload_uint given = transload_give(TRANSLOAD_OUTBOUND);
    if (given == TRANSLOAD_NONE)
        return;
    transload_uint taken = transload_take(TRANSLOAD_INBOUND);
    if (taken == TRANSLOAD_NONE) {
        transload_skip(TRANSLOAD_OUTBOUND, given);
        return;
    }
    for (transload_uint byte = 0; byte < transload_message_size(TRANSLOAD_INBOUND); ++byte)
        transload_slot(TRANSLOAD_OUTBOUND, given)[byte] = transload_slot(TRANSLOAD_INBOUND, taken)[byte] ^ 0x5a;
}
