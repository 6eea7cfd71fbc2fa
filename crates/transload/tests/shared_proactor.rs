//! Buffers that processes share, in the hands of a proactor.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use transload::proactor::{Backend, Outgoing, Part, Proactor, Socket};
use transload::region::Access;
use transload::shared::{SendError, SharedPool, SharedRegion};

fn proactors() -> impl Iterator<Item = Proactor> {
    [Backend::Uring, Backend::Readiness]
        .into_iter()
        .filter_map(|backend| Proactor::builder().backend(backend).build().ok())
}

/// Who has buffers, as the kernel's or its own.
fn lent_and_owned(pool: &SharedPool) -> (usize, usize) {
    pool.holders().iter().fold((0, 0), |(lent, owned), holder| (lent + holder.lent, owned + holder.owned))
}

#[test]
fn a_message_goes_from_a_socket_through_the_ring_to_a_socket_without_a_copy() {
    for proactor in proactors() {
        let region = SharedRegion::builder(4, 4096).create().unwrap();
        let other = SharedRegion::open(region.file_for_peer().unwrap()).unwrap();
        let (one, two) =
            (SharedPool::join(&region, "receives").unwrap(), SharedPool::join(&other, "sends").unwrap());
        let mut consumer = two.ring().consumer().unwrap();
        let registered = region.register(&proactor, Access::READ_WRITE).unwrap();
        let elsewhere = other.register(&proactor, Access::READ).unwrap();
        let handle = proactor.handle();
        let (mut peer, socket) = UnixStream::pair().unwrap();
        let socket = Socket::from(socket);

        // Of another mapping of the same memory, of which this lease has no address.
        let (lease, error) = one.try_acquire().unwrap().lend(&elsewhere).unwrap_err();
        assert_eq!(error, SendError::Foreign);
        let lent = lease.lend(&registered).unwrap();
        let (index, receive) = (lent.lease().index(), handle.receive_into(&socket, lent));
        assert_eq!(lent_and_owned(&one), (1, 0));
        peer.write_all(b"from a socket").unwrap();
        let received = proactor.block_on(receive).unwrap();
        let len_bytes = received.result.unwrap();
        let lease = received.buffers.into_parts().remove(0).into_shared().unwrap();
        assert_eq!(lent_and_owned(&one), (0, 1));
        one.ring().try_send(lease, len_bytes).unwrap();

        let (lease, len_bytes) = consumer.take(1).unwrap().into_leases().remove(0);
        assert_eq!((lease.index(), len_bytes), (index, 13));
        let part = Part::of_shared(lease.lend(&elsewhere).unwrap(), 0..len_bytes);
        let sent = proactor.block_on(handle.send(&socket, Outgoing::from(part))).unwrap();
        assert_eq!(sent.result, Ok(13));
        let mut bytes = [0; 13];
        peer.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"from a socket");
        drop(proactor.block_on(sent.returned()).unwrap());
        assert_eq!(one.statistics().free, 4);
    }
}

#[test]
fn what_an_operation_has_stays_lent_until_it_is_over() {
    for proactor in proactors() {
        let region = SharedRegion::builder(1, 64).create().unwrap();
        let pool = SharedPool::join(&region, "waits").unwrap();
        let registered = region.register(&proactor, Access::WRITE).unwrap();
        let handle = proactor.handle();
        let (peer, socket) = UnixStream::pair().unwrap();
        let socket = Socket::from(socket);
        let receive = handle.receive_into(&socket, pool.try_acquire().unwrap().lend(&registered).unwrap());
        proactor.poll(Some(Duration::ZERO)).unwrap();
        drop(receive); // asks for cancellation; the table has the lease until the kernel is done
        pool.try_acquire().unwrap_err();
        for _ in 0..100 {
            if pool.statistics().free == 1 {
                break;
            }
            proactor.poll(Some(Duration::from_millis(10))).unwrap();
        }
        assert_eq!(pool.statistics().free, 1);
        drop((peer, socket));
    }
}
