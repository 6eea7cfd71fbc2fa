use std::hint::black_box;use std::time::Instant;
use transload::device::host::HostDevice;use transload::memory::{Policy, Slab};use transload::pool::BufferPool;use transload::region::{Access, Registrar};
use transload_bench::pool::{Tagged,Subject,Worker};
fn t(n:&str,mut f:impl FnMut()){let mut best=f64::MAX;for _ in 0..15{let b=Instant::now();for _ in 0..200_000{f()}let e=b.elapsed().as_secs_f64()*1e9/200_000.0;if e<best{best=e}}println!("{n} {best:.2}");}
fn main(){
let slab=Slab::builder(1024,64).lock(Policy::Never).build().unwrap();let region=HostDevice::new().register(&slab,Access::READ).unwrap();let pool=BufferPool::new(&region).unwrap();let mut h=pool.handle();
let tg=Tagged::open(1024);let mut w=tg.worker();
for _ in 0..2{
t("tagged",||{let l=w.acquire().unwrap();black_box(&l);w.release(l)});
t("handle",||{let l=h.try_acquire().unwrap();black_box(&l);h.release(l)});
t("any",||{let l=pool.try_acquire().unwrap();black_box(&l);drop(l)});
t("any acquire, handle release",||{let l=pool.try_acquire().unwrap();black_box(&l);h.release(l)});
t("handle acquire, drop",||{let l=h.try_acquire().unwrap();black_box(&l);drop(l)});
t("any, no bb",||{let l=pool.try_acquire().unwrap();black_box(l.index());drop(l)});
t("handle, no bb",||{let l=h.try_acquire().unwrap();black_box(l.index());h.release(l)});
}
let a=std::sync::atomic::AtomicU64::new(0);
t("bare cas",||{let v=a.load(std::sync::atomic::Ordering::Relaxed);let _=a.compare_exchange(v,v+1,std::sync::atomic::Ordering::AcqRel,std::sync::atomic::Ordering::Relaxed);});
t("cas+store",||{let v=a.load(std::sync::atomic::Ordering::Relaxed);let _=a.compare_exchange(v,v+1,std::sync::atomic::Ordering::AcqRel,std::sync::atomic::Ordering::Relaxed);a.store(v+2,std::sync::atomic::Ordering::Release)});
}
