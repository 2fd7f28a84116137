//! What the machine is: `SystemInfo`. Readers need the kernel's version for the states of threads, and its kind of
//! processor for the names of system calls.

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::system::uname;
use tracebuf::proto::fields::{system_info as field, trace_packet, utsname};
use tracebuf::proto::{Message, Sink};

/// The packet.
#[derive(Debug)]
pub(crate) struct SystemInfo {
    name: [String; 4],
    processors: u64,
    memory: u64,
}

impl SystemInfo {
    /// Of this machine, which has so many processors and so many bytes of memory.
    pub(crate) fn new(processors: u64, memory: u64) -> Self {
        let name = uname();
        let parts = [name.sysname(), name.version(), name.release(), name.machine()];
        Self { name: parts.map(|part| part.to_string_lossy().into_owned()), processors, memory }
    }
}

impl Message for SystemInfo {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.message(trace_packet::SYSTEM_INFO, &Info(self))
    }
}

struct Info<'i>(&'i SystemInfo);

impl Message for Info<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.message(field::UTSNAME, &Name(&self.0.name))?;
        out.varint(field::HZ, clock_ticks_per_second())?;
        out.string(field::TRACING_SERVICE_VERSION, concat!("tracebuf ", env!("CARGO_PKG_VERSION")))?;
        out.varint(field::PAGE_SIZE, page_size() as u64)?;
        out.varint(field::NUM_CPUS, self.0.processors)?;
        out.varint(field::SYSTEM_RAM_BYTES, self.0.memory)
    }
}

struct Name<'i>(&'i [String; 4]);

impl Message for Name<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let [system, version, release, machine] = self.0;
        out.string(utsname::SYSNAME, system)?;
        out.string(utsname::VERSION, version)?;
        out.string(utsname::RELEASE, release)?;
        out.string(utsname::MACHINE, machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracebuf::proto::reader::{message, number};

    #[test]
    fn the_kernel_says_its_version_and_the_kind_of_processor() {
        let mut packet = Vec::new();
        let Ok(()) = SystemInfo::new(7, 1 << 30).encode(&mut packet);
        let info = message(&packet, trace_packet::SYSTEM_INFO).expect("info");
        let name = message(info, field::UTSNAME).expect("a name");
        let text = |number| String::from_utf8_lossy(message(name, number).expect("a text")).into_owned();
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
        assert_eq!((text(utsname::SYSNAME), text(utsname::RELEASE)), ("Linux".into(), release.trim().into()));
        assert!(!text(utsname::MACHINE).is_empty());
        assert_eq!(
            (number(info, field::NUM_CPUS), number(info, field::HZ)),
            (Some(7), Some(clock_ticks_per_second()))
        );
    }
}
