//! `/proc/PID/status`, parsed.

/// What the file says of a process or a thread. What it does not say is absent or 0; sizes are in KiB.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) name: String,
    /// The process that it belongs to.
    pub(super) tgid: u32,
    pub(super) ppid: u32,
    pub(super) uid: u32,
    /// Its numbers in the pid namespaces within ours, the outermost first.
    pub(super) nspid: Vec<u32>,
    /// Whether it is the kernel's, where that says so (6.4 and newer).
    pub(super) is_kernels: Option<bool>,
    /// By the file's names of them: see [`SIZES`].
    pub(super) sizes: [Option<u64>; SIZES.len()],
}

/// Sizes, by name.
pub(super) const SIZES: [&str; 8] =
    ["VmSize", "VmRSS", "RssAnon", "RssFile", "RssShmem", "VmSwap", "VmLck", "VmHWM"];

impl Status {
    /// Parses the file; `None` if it does not say which process it is.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut status = Self::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let words = || value.split_ascii_whitespace();
            let number = || words().next().and_then(|word| word.parse::<u64>().ok());
            match key {
                // One tab; the name itself may begin with blanks. Newlines in it are escaped.
                "Name" => value.strip_prefix('\t').unwrap_or(value).clone_into(&mut status.name),
                "Tgid" => status.tgid = number().unwrap_or(0) as u32,
                "PPid" => status.ppid = number().unwrap_or(0) as u32,
                "Uid" => status.uid = number().unwrap_or(0) as u32,
                "NSpid" => status.nspid = words().skip(1).filter_map(|word| word.parse().ok()).collect(),
                "Kthread" => status.is_kernels = number().map(|is_so| is_so != 0),
                _ => {
                    if let Some(index) = SIZES.iter().position(|size| *size == key) {
                        status.sizes[index] = number();
                    }
                }
            }
        }
        (status.tgid != 0).then_some(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_by_name_and_may_lack_anything_but_its_process() {
        let text = "Name:\t a:b\nUmask:\t0022\nTgid:\t42\nPid:\t43\nPPid:\t1\nUid:\t1000\t0\t0\t0\n\
                    NSpid:\t43\t7\t1\nKthread:\t0\nVmSize:\t    2944 kB\nVmHWM:\t   9 kB\nRssAnon:\t x kB\n";
        let status = Status::parse(text).expect("a status");
        assert_eq!((status.name.as_str(), status.tgid, status.ppid, status.uid), (" a:b", 42, 1, 1000));
        assert_eq!((&status.nspid[..], status.is_kernels), (&[7, 1][..], Some(false)));
        assert_eq!(status.sizes, [Some(2944), None, None, None, None, None, None, Some(9)]);
        assert_eq!(Status::parse("Name:\tx\n"), None);
    }
}
