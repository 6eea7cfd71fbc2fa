//! Which core each thread runs on.

use std::fmt;

use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

/// How producers are spread over the two cores. The consumer is on the second core in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Producers take turns: the first on the first core, the second beside the consumer, and so on, so that two
    /// producers do contend.
    #[default]
    Both,
    /// All producers share the first core, and the consumer has the second to itself.
    Apart,
}

/// Two cores and the spread of producers over them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cores {
    first: usize,
    second: usize,
    spread: Spread,
}

impl Cores {
    /// The first two cores that this process may run on.
    ///
    /// # Errors
    ///
    /// When the process is confined to one core, as nothing measured there would say anything.
    pub fn detect(spread: Spread) -> Result<Self> {
        let allowed = sched_getaffinity(None).context("cannot ask which cores this process may use")?;
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
        ensure!(cores.len() >= 2, "two cores are needed; this process may use {} only", cores.len());
        Ok(Self { first: cores[0], second: cores[1], spread })
    }

    /// The core of producer number `index`.
    pub fn producer(&self, index: usize) -> usize {
        match self.spread {
            Spread::Both if index % 2 == 1 => self.second,
            Spread::Both | Spread::Apart => self.first,
        }
    }

    /// The core of the consumer.
    pub fn consumer(&self) -> usize {
        self.second
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, second, .. } = self;
        match self.spread {
            Spread::Both => {
                write!(f, "consumer on core {second}, producers in turn on cores {first} and {second}")
            }
            Spread::Apart => write!(f, "consumer on core {second}, producers on core {first}"),
        }
    }
}

/// Binds the calling thread to one core.
///
/// # Panics
///
/// When the kernel refuses: the core was taken from this process while it ran.
pub fn pin_to(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).expect("a core that this process may use");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_producer_sits_beside_the_consumer_or_apart() {
        let both = Cores { first: 4, second: 7, spread: Spread::Both };
        assert_eq!([0, 1, 2, 3].map(|index| both.producer(index)), [4, 7, 4, 7]);
        let apart = Cores { first: 4, second: 7, spread: Spread::Apart };
        assert_eq!([0, 1, 2, 3].map(|index| apart.producer(index)), [4; 4]);
        assert_eq!((both.consumer(), apart.consumer()), (7, 7));
    }
}
