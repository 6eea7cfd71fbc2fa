//! Native handles of Vulkan, in and out: the user's own instance, device, buffer and work; and what is imported.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::ptr::NonNull;
use std::sync::PoisonError;

use ash::vk;
use transload::device::vulkan::{RawDevice, VulkanDevice, VulkanOptions, VulkanStream};
use transload::device::{Device, DeviceError, Landing, Stream, StreamOptions};
use transload::memory::{Policy, Slab};
use transload::region::{Access, Registrar, Registration};
use transload_conformance::device::{Hold, Rig, all_of, bring, finish, next};
use transload_conformance::skip::skip;
use transload_conformance::vulkan::{Layer, Own, TimelineGate, plain, validated};
use transload_conformance::watchdog::{output, watch};

const OPTIONS: StreamOptions = StreamOptions { queue_bytes: 1024, in_flight: 4 };

/// Set in a child process that is to be ended by the validation layer.
const MISUSED: &str = "TRANSLOAD_TEST_MISUSED";

/// Makes a test of a function over the first device, under validation, bounded in time and skipped where there is none.
macro_rules! tests {
    ($($(#[$doc:meta])* fn $name:ident($device:ident) $body:block)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            let name = concat!("vulkan_native::", stringify!($name));
            match validated() {
                Err(why) => skip(name, &why),
                Ok($device) => watch(name, move || $body),
            }
        }
    )*};
}

/// A buffer of a test's own, in memory that the host can reach.
struct Buffer {
    device: VulkanDevice,
    raw: vk::Buffer,
    memory: vk::DeviceMemory,
}

impl Buffer {
    fn new(device: &VulkanDevice, size: u64) -> Self {
        let uses = vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::STORAGE_BUFFER;
        let wanted = vk::BufferCreateInfo::default().size(size).usage(uses);
        // SAFETY: the device is there.
        let raw = unsafe { device.device().create_buffer(&wanted, None) }.unwrap();
        // SAFETY: the buffer is there.
        let wants = unsafe { device.device().get_buffer_memory_requirements(raw) };
        // SAFETY: the device is one of the instance.
        let kinds =
            unsafe { device.instance().get_physical_device_memory_properties(device.physical_device()) };
        let visible = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let kind = (0..kinds.memory_type_count).find(|nth| {
            wants.memory_type_bits & 1 << nth != 0
                && kinds.memory_types[*nth as usize].property_flags.contains(visible)
        });
        let wanted =
            vk::MemoryAllocateInfo::default().allocation_size(wants.size).memory_type_index(kind.unwrap());
        // SAFETY: the device is there.
        let memory = unsafe { device.device().allocate_memory(&wanted, None) }.unwrap();
        // SAFETY: both are there, and the memory is long enough.
        unsafe { device.device().bind_buffer_memory(raw, memory, 0) }.unwrap();
        Self { device: device.clone(), raw, memory }
    }

    fn bytes(&self, len_bytes: usize) -> Vec<u8> {
        let (device, none) = (self.device.device(), vk::MemoryMapFlags::empty());
        // SAFETY: the memory is there, visible and not mapped.
        let mapped = unsafe { device.map_memory(self.memory, 0, vk::WHOLE_SIZE, none) }.unwrap();
        // SAFETY: so much is mapped, and nobody writes it now.
        let bytes = unsafe { std::slice::from_raw_parts(mapped.cast::<u8>(), len_bytes) }.to_vec();
        // SAFETY: mapped above.
        unsafe { device.unmap_memory(self.memory) };
        bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: ours, and used by nobody any more.
        unsafe { self.device.device().destroy_buffer(self.raw, None) };
        // SAFETY: as above.
        unsafe { self.device.device().free_memory(self.memory, None) };
    }
}

/// Work of a test's own: copies one buffer to another, when a timeline has a number.
struct Work {
    device: VulkanDevice,
    pool: vk::CommandPool,
    fence: vk::Fence,
}

impl Work {
    fn new(device: &VulkanDevice) -> Self {
        let wanted = vk::CommandPoolCreateInfo::default().queue_family_index(device.queue_family_index());
        // SAFETY: the device is there.
        let pool = unsafe { device.device().create_command_pool(&wanted, None) }.unwrap();
        // SAFETY: as above.
        let fence = unsafe { device.device().create_fence(&vk::FenceCreateInfo::default(), None) }.unwrap();
        Self { device: device.clone(), pool, fence }
    }

    fn copy(&self, stream: &VulkanStream, number: u64, to: &Buffer, size: u64) {
        let device = self.device.device();
        let wanted = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
        // SAFETY: the pool is there.
        let commands = unsafe { device.allocate_command_buffers(&wanted) }.unwrap();
        // SAFETY: the command buffer is new.
        unsafe { device.begin_command_buffer(commands[0], &vk::CommandBufferBeginInfo::default()) }.unwrap();
        let part = [vk::BufferCopy { src_offset: 0, dst_offset: 0, size }];
        // SAFETY: it is being recorded; both buffers are long enough.
        unsafe { device.cmd_copy_buffer(commands[0], stream.queue_buffer(), to.raw, &part) };
        // SAFETY: it is being recorded.
        unsafe { device.end_command_buffer(commands[0]) }.unwrap();
        let (semaphores, numbers) = ([stream.timeline()], [number]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default().wait_semaphore_values(&numbers);
        let stages = [vk::PipelineStageFlags::TRANSFER];
        let work = vk::SubmitInfo::default()
            .command_buffers(&commands)
            .wait_semaphores(&semaphores)
            .wait_dst_stage_mask(&stages)
            .push_next(&mut timeline);
        let _alone = stream.queue_lock().lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: all of it is there, and the lock held.
        unsafe { device.queue_submit(stream.queue(), &[work], self.fence) }.unwrap();
    }

    fn finish(self) {
        // SAFETY: the fence is there.
        unsafe { self.device.device().wait_for_fences(&[self.fence], true, 10_000_000_000) }.unwrap();
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // SAFETY: ours, and the work has ended.
        unsafe { self.device.device().destroy_command_pool(self.pool, None) };
        // SAFETY: as above.
        unsafe { self.device.device().destroy_fence(self.fence, None) };
    }
}

fn native(stream: &dyn Stream) -> &VulkanStream {
    stream.as_any().downcast_ref().unwrap()
}

fn registration(device: &VulkanDevice, slab: &Slab) -> Registration {
    device.register(slab, Access::READ_WRITE).unwrap().registration().clone()
}

tests! {
    /// Work of the user's that waits for a transfer's number sees the batch that has landed.
    fn work_waits_for_a_batch(device) {
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let mut gate = TimelineGate::new(&device, &*stream);
        let mut rig = Rig::new(&device, 8, 128);
        gate.close();
        let (upload, bytes) = rig.upload(8, 0);
        let ticket = stream.submit(upload).unwrap();
        let number = native(&*stream).number(ticket).unwrap();
        let (own, work) = (Buffer::new(&device, 1024), Work::new(&device));
        work.copy(native(&*stream), number, &own, 1024);
        gate.open();
        work.finish();
        assert_eq!(own.bytes(1024), bytes);
        finish(&mut *stream);
        assert!(native(&*stream).number(ticket).is_none(), "handed back");
    }

    /// The user's buffer is the device queue, and is not written beyond it.
    fn a_buffer_of_the_users_is_the_device_queue(device) {
        let own = Buffer::new(&device, 2048);
        // SAFETY: the buffer is there, for all uses, and outlives the stream.
        let mut stream = unsafe { device.open_stream_over(own.raw, &OPTIONS) }.unwrap();
        assert_eq!((stream.queue_bytes(), stream.queue_buffer()), (1024, own.raw));
        let before = own.bytes(2048)[1024..].to_vec();
        let mut rig = Rig::new(&device, 8, 128);
        let (upload, bytes) = rig.upload(8, 0);
        stream.submit(upload).unwrap();
        finish(&mut stream);
        assert_eq!(all_of(&device, &mut stream), bytes);
        drop(stream);
        assert_eq!(own.bytes(2048), [bytes, before].concat());
    }

    /// Messages of odd sizes at odd places: the layer would say so if a driver could mind.
    fn messages_of_odd_sizes_land_whole(device) {
        for size in [1, 3, 5, 24, 924] {
            let mut stream = device.open_stream(&StreamOptions { queue_bytes: 64 * size + 7, in_flight: 2 }).unwrap();
            let mut rig = Rig::new(&device, 64, size);
            for (messages, to) in [(1, 1), (63, 7), (40, 3), (64, 0)] {
                rig.advance(5);
                let (upload, bytes) = rig.upload(messages, to);
                stream.submit(upload).unwrap();
                finish(&mut *stream);
                assert!(bring(&device, &mut *stream, to..to + bytes.len()) == bytes, "{messages} of {size} at {to}");
            }
        }
    }

    /// What begins and ends on pages is reached itself, and anything else is copied, with the reason.
    fn registrations_say_what_is_known(device) {
        let other = validated().unwrap();
        let plain = Slab::builder(8, 64).lock(Policy::Never).build().unwrap();
        assert_eq!(registration(&device, &plain), Registration::Mapped);
        assert_eq!(registration(&device.clone(), &plain), Registration::Mapped);
        let own = device.allocate_slab(8, 64).unwrap();
        assert_eq!(registration(&device, &own), Registration::Mapped);
        // What one driver's device has allocated need not begin on a page for another.
        let _ = registration(&other, &own);
        drop(own);
        assert_eq!(*Landing::new(&device, 64).unwrap().region().registration(), Registration::Mapped);
        let memory = NonNull::from(vec![0_u8; 3 * 4096].leak()).cast::<u8>();
        let page = NonNull::new(memory.as_ptr().map_addr(|address| address.next_multiple_of(4096))).unwrap();
        let odd = NonNull::new(page.as_ptr().wrapping_add(64)).unwrap();
        for (base, len_bytes, word) in [(odd, 4096, "it begins at 0x"), (page, 4095, "it has 4095 bytes")] {
            // SAFETY: the memory is initialised, as long as that, there for ever and nobody else's.
            let slab = unsafe { Slab::wrap(base, 1, len_bytes) }.unwrap();
            let Registration::Staged { reason } = registration(&device, &slab) else { panic!("it is staged") };
            assert!(reason.contains(word) && reason.contains("4096"), "{reason}");
        }
        // SAFETY: as above.
        let whole = unsafe { Slab::wrap(page, 1, 4096) }.unwrap();
        assert_eq!(registration(&device, &whole), Registration::Mapped);
    }

    /// Transfers that must go through other memory are counted.
    fn staged_transfers_are_counted(device) {
        let memory = NonNull::from(vec![0_u8; 1024].leak()).cast::<u8>();
        let odd = NonNull::new(memory.as_ptr().map_addr(|address| address | 1)).unwrap();
        // SAFETY: the memory is initialised, as long as that, there for ever and nobody else's.
        let slab = unsafe { Slab::wrap(odd, 8, 64) }.unwrap();
        let mut rigs = [Rig::over(&device, slab, 8, 64), Rig::new(&device, 8, 64)];
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        for (nth, count) in [(0, 1), (1, 1), (0, 2)] {
            let (upload, bytes) = rigs[nth].upload(8, 0);
            stream.submit(upload).unwrap();
            finish(&mut *stream);
            assert_eq!(native(&*stream).staged_transfers(), count);
            assert_eq!(bring(&device, &mut *stream, 0..512), bytes);
        }
    }

    /// The user's device, let go of by the user while it is in use.
    fn a_device_of_the_users_is_kept(device) {
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let mut rig = Rig::new(&device, 8, 64);
        // The owner is now kept by what was made of the device alone.
        drop(device);
        let (upload, _) = rig.upload(8, 0);
        stream.submit(upload).unwrap();
        drop(next(&mut *stream).expect_upload());
        let kept = rig.region.clone();
        drop((stream, rig));
        drop(kept);
    }
}

/// Long slabs are imported in pieces, and batches that lie across them land whole.
#[test]
fn slabs_are_imported_in_pieces() {
    let own = match Own::new(Layer::Validation) {
        Ok(own) => own,
        Err(why) => return skip("vulkan_native::slabs_are_imported_in_pieces", &why),
    };
    watch("pieces", move || {
        let mut options = VulkanOptions::default();
        options.piece_bytes = 3 * 4096 + 1;
        // SAFETY: all of it is there and belongs together, and is kept by its owner.
        let device = unsafe { VulkanDevice::from_raw(own.into_raw(), options) }.unwrap();
        let mut rig = Rig::new(&device, 64, 1000);
        assert_eq!(*rig.region.registration(), Registration::Mapped);
        let mut stream = device.open_stream(&StreamOptions { queue_bytes: 64_000, in_flight: 2 }).unwrap();
        for messages in [1, 13, 64, 50, 64] {
            let (upload, bytes) = rig.upload(messages, 0);
            stream.submit(upload).unwrap();
            finish(&mut *stream);
            assert!(bring(&device, &mut *stream, 0..bytes.len()) == bytes, "{messages} messages");
        }
    });
}

/// A device that was made without the extension: everything is copied through other memory.
#[test]
fn a_device_without_the_extension_stages() {
    let own = match Own::new(Layer::Validation) {
        Ok(own) => own,
        Err(why) => return skip("vulkan_native::a_device_without_the_extension_stages", &why),
    };
    watch("without", move || {
        let raw = RawDevice { external_memory_host: false, ..own.into_raw() };
        // SAFETY: all of it is there and belongs together, and is kept by its owner.
        let device = unsafe { VulkanDevice::from_raw(raw, VulkanOptions::default()) }.unwrap();
        let mut rig = Rig::new(&device, 8, 100);
        let Registration::Staged { reason } = rig.region.registration().clone() else {
            panic!("it is staged")
        };
        assert!(reason.contains("VK_EXT_external_memory_host"), "{reason}");
        assert!(device.register_pinned(rig.region.slab(), Access::READ).is_err());
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let (upload, bytes) = rig.upload(8, 0);
        stream.submit(upload).unwrap();
        finish(&mut *stream);
        assert_eq!(bring(&device, &mut *stream, 0..800), bytes);
        let own = device.allocate_slab(8, 100).unwrap();
        assert_eq!(registration(&device, &own), Registration::Mapped);
    });
}

/// A queue of a family that there is not is refused, and what was handed in comes to its end.
#[test]
fn handles_that_do_not_fit_are_refused() {
    let own = match Own::new(Layer::Validation) {
        Ok(own) => own,
        Err(why) => return skip("vulkan_native::handles_that_do_not_fit_are_refused", &why),
    };
    let raw = RawDevice { queue_family_index: 99, ..own.into_raw() };
    // SAFETY: what is wrong with it is refused before it is used.
    let error = unsafe { VulkanDevice::from_raw(raw, VulkanOptions::default()) }.unwrap_err();
    assert!(matches!(&error, DeviceError::Unsuitable { handle: "queue", .. }), "{error}");
}

/// The layer is there and listens: work that breaks a rule ends the process, and says which.
#[test]
fn a_rule_that_is_broken_is_noticed() {
    let name = "a_rule_that_is_broken_is_noticed";
    if std::env::var_os(MISUSED).is_some() {
        let device = validated().unwrap();
        let own = Buffer::new(&device, 64);
        // SAFETY: it is not: the buffer is shorter than the stream, which a layer notices before a driver does.
        let mut stream = unsafe { device.open_stream_over(own.raw, &OPTIONS) }.unwrap();
        let mut rig = Rig::new(&device, 8, 128);
        let _ = stream.submit(rig.upload(8, 0).0);
        return;
    }
    if let Err(why) = validated() {
        return skip("vulkan_native::a_rule_that_is_broken_is_noticed", &why);
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = output(child.args([name, "--exact", "--nocapture"]).env(MISUSED, "1"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("VALIDATION: Validation Error"), "{said}");
    assert!(said.contains("vkCmdCopyBuffer"), "{said}");
}

/// Two devices of the back end's own over one driver: regions and kernels of one are none of the other's, and an index is
/// what it was opened by.
#[test]
fn devices_are_their_own() {
    let (Ok(device), Ok(other)) = (plain(), plain()) else {
        return skip("vulkan_native::devices_are_their_own", "no Vulkan device");
    };
    assert_ne!(device.device().handle(), other.device().handle());
    assert_eq!(device.info(), other.info());
    assert_eq!(device.info().index, 0);
}
