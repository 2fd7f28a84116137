//! The conformance data: scripts, and what must come out.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Scripts of one class: a script's class is its name up to the dash.
pub(crate) struct Class {
    /// The folder: `exact`, `truth` or `recorded`.
    pub(crate) folder: &'static str,
    pub(crate) name: &'static str,
    /// How many scripts there are.
    scripts: usize,
    /// What belongs to each of them, by extension; each is there for a judge.
    files: &'static [&'static str],
}

const EXPECTED: &str = "expected";
const TRUTH: &str = "truth.json";
const REFERENCE_KEEPS: &str = "reference-keeps";

const fn class(
    folder: &'static str,
    name: &'static str,
    scripts: usize,
    files: &'static [&'static str],
) -> Class {
    Class { folder, name, scripts, files }
}

/// All that there must be: a file that gets lost must not take its judge along.  The reference fails on the scripts of
/// `gaps` and `readmit`, so there is no number of packets that it keeps.
static CLASSES: [Class; 19] = [
    class("exact", "clean", 3, &[EXPECTED]),
    class("exact", "malformed", 3, &[EXPECTED]),
    class("exact", "ooo", 3, &[EXPECTED]),
    class("exact", "patches", 3, &[EXPECTED]),
    class("truth", "discard", 3, &[TRUTH, REFERENCE_KEEPS]),
    class("truth", "gaps", 3, &[TRUTH]),
    class("truth", "manywriters", 1, &[TRUTH, REFERENCE_KEEPS]),
    class("truth", "race", 3, &[TRUTH, REFERENCE_KEEPS]),
    class("truth", "readmit", 3, &[TRUTH]),
    class("truth", "scrape", 3, &[TRUTH, REFERENCE_KEEPS]),
    class("truth", "sporadic", 3, &[TRUTH, REFERENCE_KEEPS]),
    class("truth", "wrap", 3, &[TRUTH, REFERENCE_KEEPS]),
    class("truth", "wrapscrape", 1, &[TRUTH, REFERENCE_KEEPS]),
    class("recorded", "big_packets", 1, &[EXPECTED, TRUTH, REFERENCE_KEEPS]),
    class("recorded", "clone_snapshot", 1, &[TRUTH, REFERENCE_KEEPS]),
    class("recorded", "discard", 1, &[TRUTH, REFERENCE_KEEPS]),
    class("recorded", "long_trace", 1, &[TRUTH, REFERENCE_KEEPS]),
    class("recorded", "smb_exhaustion", 1, &[TRUTH, REFERENCE_KEEPS]),
    class("recorded", "track_events", 1, &[EXPECTED, TRUTH, REFERENCE_KEEPS]),
];

/// One script and what belongs to it.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) class: &'static Class,
    /// The name without extensions, such as `wrap-101`.
    pub(crate) name: String,
    source: Source,
}

#[derive(Clone)]
enum Source {
    /// `NAME.tar.zst`: the files share most of their bytes, which packing them together saves.
    Archive(PathBuf),
    /// `NAME.EXTENSION[.gz]` each.
    Folder(PathBuf),
}

/// The files of a case, by extension: `tbops`, the script, and what its class has.
pub(crate) struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    fn get(&self, extension: &str) -> Result<&[u8], String> {
        self.0.get(extension).map(Vec::as_slice).ok_or_else(|| format!("the file .{extension} is missing"))
    }

    fn text(&self, extension: &str) -> Result<&str, String> {
        Ok(std::str::from_utf8(self.get(extension)?).expect("conformance data is text"))
    }

    pub(crate) fn script(&self) -> Result<&[u8], String> {
        self.get("tbops")
    }

    /// What the reference printed.
    pub(crate) fn expected(&self) -> Result<&str, String> {
        self.text(EXPECTED)
    }

    /// What the writers wrote.
    pub(crate) fn truth(&self) -> Result<&[u8], String> {
        self.get(TRUTH)
    }

    /// The number of packets that the reference reads back from this script.
    pub(crate) fn reference_keeps(&self) -> Result<usize, String> {
        Ok(self.text(REFERENCE_KEEPS)?.trim().parse().expect("a number of packets"))
    }
}

impl Class {
    /// Whether there is what the reference printed.
    pub(crate) fn has_expected(&self) -> bool {
        self.files.contains(&EXPECTED)
    }

    /// Whether there is what the writers wrote.
    pub(crate) fn has_truth(&self) -> bool {
        self.files.contains(&TRUTH)
    }

    /// Whether there is the number of packets that the reference keeps.
    pub(crate) fn has_reference_keeps(&self) -> bool {
        self.files.contains(&REFERENCE_KEEPS)
    }
}

impl Case {
    /// Unpacks the files of this case.
    pub(crate) fn files(&self) -> Files {
        match &self.source {
            Source::Archive(path) => unpack(path),
            Source::Folder(path) => gather(path, &self.name),
        }
    }

    /// That what belongs to this case is there, and no file that no judge would look at.
    pub(crate) fn check_files(&self) -> Result<(), String> {
        let files = self.files();
        files.script()?;
        for file in self.class.files {
            files.get(file)?;
        }
        // What the real service wrote: .ci/test compares it, with a decoder that is not ours.
        let known = |file: &&String| ["tbops", "pftrace"].contains(&file.as_str());
        let unknown = |file: &&String| !known(file) && !self.class.files.contains(&file.as_str());
        match files.0.keys().find(unknown) {
            Some(file) => Err(format!("{}.{file} is not in the list of what there is", self.name)),
            None => Ok(()),
        }
    }
}

/// Every case of the set, by folder and name.
pub(crate) fn cases() -> Vec<Case> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let mut all = Vec::new();
    for folder in ["exact", "truth", "recorded"] {
        let path = data.join(folder);
        let is_recorded = folder == "recorded";
        for name in names(&path, if is_recorded { ".tbops.gz" } else { ".tar.zst" }) {
            let source = if is_recorded {
                Source::Folder(path.clone())
            } else {
                Source::Archive(path.join(format!("{name}.tar.zst")))
            };
            let of = name.split('-').next().unwrap_or_default();
            let class = CLASSES.iter().find(|class| class.folder == folder && class.name == of);
            let class = class.unwrap_or_else(|| panic!("{folder}/{name} is of no class that a judge knows"));
            all.push(Case { class, name, source });
        }
    }
    all
}

/// That there are as many scripts of each class as there must be.
pub(crate) fn check_numbers(cases: &[Case]) -> Result<(), String> {
    for class in &CLASSES {
        let Class { folder, name, scripts, .. } = class;
        let found =
            cases.iter().filter(|case| case.class.folder == *folder && case.class.name == *name).count();
        if found != *scripts {
            return Err(format!("{found} scripts {folder}/{name}, not {scripts}"));
        }
    }
    Ok(())
}

/// The names of the files that end with `end`, without it, sorted.
fn names(folder: &Path, end: &str) -> Vec<String> {
    let mut names: Vec<String> =
        files(folder).iter().filter_map(|name| name.strip_suffix(end).map(str::to_owned)).collect();
    names.sort();
    names
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder of conformance data");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

fn unpack(path: &Path) -> Files {
    let packed = fs::read(path).expect("an archive");
    let decoder = ruzstd::decoding::StreamingDecoder::new(packed.as_slice()).expect("a zstd frame");
    let mut archive = tar::Archive::new(decoder);
    let mut files = BTreeMap::new();
    for entry in archive.entries().expect("a tar archive") {
        let mut entry = entry.expect("a file in the archive");
        let name = entry.path().expect("a name").to_string_lossy().into_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("the file in the archive");
        files.insert(extension(&name), bytes);
    }
    Files(files)
}

fn gather(folder: &Path, name: &str) -> Files {
    let own = |file: &String| file.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    let mut found = BTreeMap::new();
    for file in files(folder).into_iter().filter(own) {
        let raw = fs::read(folder.join(&file)).expect("a file");
        let bytes = if file.ends_with(".gz") {
            let mut bytes = Vec::new();
            flate2::read::MultiGzDecoder::new(raw.as_slice()).read_to_end(&mut bytes).expect("gzipped data");
            bytes
        } else {
            raw
        };
        found.insert(extension(file.trim_end_matches(".gz")), bytes);
    }
    Files(found)
}

/// Everything after the first dot.
fn extension(name: &str) -> String {
    name.split_once('.').map(|(_, rest)| rest.to_owned()).unwrap_or_default()
}
