//! The first message of a service to a program that connects: [`Welcome`].

use tracebuf::proto::reader::{FieldValue, Fields, message, numbers};

use tracebuf_service::wire::ProtoBuilder;

/// The version of everything said from then on: records, the pages of shared memory and their layout.
const VERSION: u64 = 2;

pub(crate) const MAX_WELCOME: usize = 64 << 10;

// The numbers of its fields; unknown fields are skipped, as everywhere in protobuf.
const REFUSED: u32 = 1;
const WELCOME_VERSION: u32 = 2;
const SHARED_MEMORY: u32 = 3;
const STATE_EVERY: u32 = 4;
const SOURCE: u32 = 5;
const SOURCE_NAME: u32 = 1;
const SOURCE_BUFFER: u32 = 2;

/// What a program must know to record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Welcome {
    /// Bytes of shared memory, which comes with it.
    pub(crate) shared_memory: usize,
    /// For each buffer, after how many bytes a writer repeats its state.
    pub(crate) state_every: Vec<u32>,
    /// Data sources, with the buffers that they go to.
    pub(crate) sources: Vec<(String, u16)>,
}

impl Welcome {
    /// `None` if the names of its data sources are too long.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        let sizes = ProtoBuilder::new().number(WELCOME_VERSION, VERSION);
        let sizes = sizes.number(SHARED_MEMORY, self.shared_memory as u64);
        let sizes = sizes.each(&self.state_every, |sizes, bytes| sizes.number(STATE_EVERY, *bytes));
        let all = sizes.each(&self.sources, |all, (name, buffer)| {
            let source = ProtoBuilder::new().bytes(SOURCE_NAME, name.as_bytes());
            all.message(SOURCE, &source.number(SOURCE_BUFFER, *buffer))
        });
        (all.as_bytes().len() <= MAX_WELCOME).then(|| all.into_bytes())
    }

    /// What a program that the service does not take hears instead.
    pub(crate) fn refusal(why: &str) -> Vec<u8> {
        ProtoBuilder::new().bytes(REFUSED, why.as_bytes()).into_bytes()
    }

    /// What a service has said; otherwise why it does not take this program, or that it is no service.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let (mut welcome, mut version) = (Self::default(), None);
        let mut fields = Fields::of(bytes);
        for field in &mut fields {
            match (field.number, field.value) {
                (REFUSED, FieldValue::Bytes(why)) => return Err(String::from_utf8_lossy(why).into_owned()),
                (WELCOME_VERSION, FieldValue::Number(number)) => version = Some(number),
                (SHARED_MEMORY, FieldValue::Number(bytes)) => {
                    welcome.shared_memory = usize::try_from(bytes).unwrap_or(usize::MAX);
                }
                (STATE_EVERY, FieldValue::Number(bytes)) => {
                    welcome.state_every.push(u32::try_from(bytes).unwrap_or(u32::MAX));
                }
                (SOURCE, FieldValue::Bytes(source)) => welcome.sources.extend(source_of(source)),
                _ => {}
            }
        }
        match version {
            Some(VERSION) if fields.is_at_end() => Ok(welcome),
            Some(other) if other != VERSION => {
                Err(format!("the service speaks version {other}, this program {VERSION}"))
            }
            _ => Err("what is there is no tracing service".to_owned()),
        }
    }
}

fn source_of(source: &[u8]) -> Option<(String, u16)> {
    let ([buffer], name) = (numbers(source, [SOURCE_BUFFER])?, message(source, SOURCE_NAME)?);
    Some((String::from_utf8(name.to_vec()).ok()?, u16::try_from(buffer).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome() -> Welcome {
        Welcome {
            shared_memory: 1 << 20,
            state_every: vec![0, 1 << 20, u32::MAX],
            sources: vec![("camera".to_owned(), 2), (String::new(), 0)],
        }
    }

    #[test]
    fn what_is_said_is_heard() {
        let bytes = welcome().to_bytes().expect("room");
        assert_eq!(Welcome::from_bytes(&bytes), Ok(welcome()));
    }

    #[test]
    fn a_refusal_another_version_and_what_is_no_service_are_told_apart() {
        assert_eq!(Welcome::from_bytes(&Welcome::refusal("full")), Err("full".to_owned()));
        let mut newer = welcome().to_bytes().expect("room");
        newer[1] = 3;
        let error = "the service speaks version 3, this program 2";
        assert_eq!(Welcome::from_bytes(&newer), Err(error.to_owned()));
        let whole = welcome().to_bytes().expect("room");
        for bytes in [&b"HTTP/1.1 400\r\n"[..], b"", &whole[..whole.len() - 1]] {
            assert_eq!(Welcome::from_bytes(bytes), Err("what is there is no tracing service".to_owned()));
        }
    }

    #[test]
    fn names_that_are_too_long_are_an_error() {
        let sources = vec![("x".repeat(MAX_WELCOME), 0)];
        assert!(Welcome { sources, ..welcome() }.to_bytes().is_none());
    }
}
