//! A producer as the service knows it: who it is, what it offers, and its end of shared memory.

use alloc::sync::Arc;
use alloc::vec::Vec;

use tracebuf::producer::{AtomicU32, Consumer, SharedMemory};
use tracebuf::proto::fields::ipc::smb_scraping_mode;
use tracebuf::service::{EndpointState, EndpointStats, ProducerEndpoint, ProducerIdentity};

use crate::buffers::BufferSet;
use crate::config::{LONGEST_NAME, ProducerConfig, cut};
use crate::host::{ConnectionId, FileToken, Peer};
use crate::wire::ProtoBuilder;
use crate::wire::calls::{Hello, SourceDescriptor};

/// Most writers of one producer: their numbers have 15 bits.
pub(crate) const WRITERS: usize = 32_767;
/// Most data sources that one producer may offer.
pub(crate) const MOST_SOURCES: usize = 1024;
/// Most bytes of what it may say of them all.
const MOST_DESCRIBED: usize = 4 << 20;

const PAGE: u64 = 4096;
const LARGEST_PAGE: u64 = 32 << 10;
const DEFAULT_SIZE: u64 = 256 << 10;
const LARGEST_SIZE: u64 = 32 << 20;

pub(crate) type Endpoint<'m> = ProducerEndpoint<'m, WRITERS, BufferSet>;

/// A producer that has said who it is.
pub(crate) struct Producer<S> {
    pub(crate) connection: ConnectionId,
    pub(crate) peer: Peer,
    pub(crate) hello: Hello,
    pub(crate) sources: Vec<Arc<SourceDescriptor>>,
    /// The call to which commands are replies.
    pub(crate) listens: Option<u64>,
    /// Commands from before there was one.
    pub(crate) unheard: Vec<(ProtoBuilder, Option<FileToken>)>,
    pub(crate) unheard_bytes: usize,
    shared: Option<(S, u32)>,
    /// `None` only while an endpoint of it works.
    known: Option<EndpointState<WRITERS, BufferSet>>,
}

impl<S: AsRef<[AtomicU32]>> Producer<S> {
    pub(crate) fn new(connection: ConnectionId, peer: Peer, number: u16, mut hello: Hello) -> Self {
        [&mut hello.name, &mut hello.sdk_version].into_iter().for_each(|name| cut(name, LONGEST_NAME));
        let identity = ProducerIdentity { producer_id: number, uid: peer.uid, pid: peer.pid };
        Self {
            connection,
            peer,
            hello,
            sources: Vec::new(),
            listens: None,
            unheard: Vec::new(),
            unheard_bytes: 0,
            shared: None,
            known: Some(EndpointState::new(identity, BufferSet::default()).patching_in_place()),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.hello.name
    }

    /// Whether it may say so many bytes of a data source, of which it has said so many before.
    pub(crate) fn may_describe(&self, bytes: usize, before: usize) -> bool {
        let all = self.sources.iter().map(|source| source.whole.len()).sum::<usize>();
        all.saturating_sub(before).saturating_add(bytes) <= MOST_DESCRIBED
    }

    pub(crate) const fn has_memory(&self) -> bool {
        self.shared.is_some()
    }

    /// Gives it memory in pages of so many bytes; false if there is not one whole page.
    pub(crate) fn set_memory(&mut self, shared: S, page: u32) -> bool {
        let is_valid = SharedMemory::new(shared.as_ref(), page).is_ok();
        self.shared = is_valid.then_some((shared, page));
        is_valid
    }

    /// Bytes of memory and of a page that it is to have, as the session by which it gets them says, or as it would like
    /// itself.
    pub(crate) fn sizes(&self, configs: &[ProducerConfig]) -> (u64, u64) {
        let config = configs.iter().find(|config| config.name == self.hello.name);
        let of = |said: Option<u64>, hint: u64, default: u64, most: u64| {
            let said = said.filter(|size| *size != 0).unwrap_or(hint);
            if said == 0 { default } else { said.min(most) }
        };
        let page = of(config.map(|config| config.page), self.hello.page, PAGE, LARGEST_PAGE);
        let size = of(config.map(|config| config.size), self.hello.size, DEFAULT_SIZE, LARGEST_SIZE);
        if are_valid(size, page) { (size, page) } else { (DEFAULT_SIZE, PAGE) }
    }

    /// The page of memory that the producer brings, if it can be used as it is.
    pub(crate) fn page_of_its_own(hello: &Hello, bytes: u64) -> Option<u32> {
        let page = if hello.page == 0 { PAGE } else { hello.page };
        let fits = bytes <= LARGEST_SIZE && page <= LARGEST_PAGE && are_valid(bytes, page);
        fits.then(|| u32::try_from(page).ok()).flatten()
    }

    /// Whether what it is still writing may be looked at while it is there.
    pub(crate) fn may_scrape(&self) -> bool {
        self.hello.scraping == smb_scraping_mode::ENABLED
    }

    /// Works on its memory, if there is any.
    pub(crate) fn with<R>(&mut self, act: impl FnOnce(&mut Endpoint<'_>) -> R) -> Option<R> {
        let (shared, page) = self.shared.as_ref()?;
        let memory = SharedMemory::new(shared.as_ref(), *page).ok()?;
        let mut endpoint = Endpoint::of(self.known.take()?, Consumer::new(memory));
        let result = act(&mut endpoint);
        self.known = Some(endpoint.into_state());
        Some(result)
    }

    pub(crate) fn allowed(&mut self) -> Option<&mut BufferSet> {
        self.known.as_mut().map(EndpointState::allowed_mut)
    }

    pub(crate) fn writes_to_any(&self, buffers: &[u16]) -> bool {
        self.known.as_ref().is_some_and(|known| known.allowed().has_any(buffers))
    }

    pub(crate) fn stats(&self) -> EndpointStats {
        self.known.as_ref().map(EndpointState::stats).unwrap_or_default()
    }
}

fn are_valid(size: u64, page: u64) -> bool {
    page >= PAGE && page.is_power_of_two() && size >= page && size.is_multiple_of(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn producer(size: u64, page: u64) -> Producer<std::vec::Vec<AtomicU32>> {
        let hello = Hello { size, page, name: "p".into(), ..Hello::default() };
        Producer::new(1, Peer { uid: 0, pid: 1 }, 1, hello)
    }

    #[test]
    fn memory_is_as_the_session_says_or_as_the_producer_would_like_within_limits() {
        const K: u64 = 1024;
        assert_eq!(producer(0, 0).sizes(&[]), (256 * K, 4 * K));
        assert_eq!(producer(2048 * K, 32 * K).sizes(&[]), (2048 * K, 32 * K));
        assert_eq!(producer(1 << 40, 1 << 40).sizes(&[]), (32 << 20, 32 * K), "the largest");
        // Both are as if nothing had been said, if one of them cannot be.
        for (size, page) in [(2048 * K, 12 * K), (36 * K, 8 * K), (4 * K, 8 * K), (1 << 20, 1)] {
            assert_eq!(producer(size, page).sizes(&[]), (256 * K, 4 * K), "{size} {page}");
        }
        let config = |name: &str, size, page| ProducerConfig { name: name.into(), size, page };
        let configs = [config("other", 8 * K, 8 * K), config("p", 512 * K, 0)];
        assert_eq!(producer(2048 * K, 32 * K).sizes(&configs), (512 * K, 32 * K));
    }

    #[test]
    fn memory_that_a_producer_brings_is_used_as_it_is_or_not_at_all() {
        let page = |size, page| {
            Producer::<std::vec::Vec<AtomicU32>>::page_of_its_own(&Hello { page, ..Hello::default() }, size)
        };
        assert_eq!([page(1 << 20, 0), page(1 << 20, 32 << 10)], [Some(4096), Some(32 << 10)]);
        assert_eq!([page(1 << 20, 64 << 10), page(64 << 20, 0), page(4097, 0), page(0, 0)], [None; 4]);
    }
}
