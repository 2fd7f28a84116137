//! The conformance data: scripts, and what must come out.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// One script and what belongs to it.
#[derive(Clone)]
pub(crate) struct Case {
    /// The folder: `exact`, `truth` or `recorded`.
    pub(crate) folder: &'static str,
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

/// The files of a case, by extension: `tbops`, `expected`, `truth.json`, `reference-keeps`.
pub(crate) struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    /// The bytes of the file with this extension, if there is one.
    pub(crate) fn get(&self, extension: &str) -> Option<&[u8]> {
        self.0.get(extension).map(Vec::as_slice)
    }

    /// The text of the file with this extension.
    pub(crate) fn text(&self, extension: &str) -> Option<&str> {
        self.get(extension).map(|bytes| std::str::from_utf8(bytes).expect("conformance data is text"))
    }

    /// The number of packets that the reference reads back from this script, if it does better than fail.
    pub(crate) fn reference_keeps(&self) -> Option<usize> {
        Some(self.text("reference-keeps")?.trim().parse().expect("a number of packets"))
    }
}

impl Case {
    /// The class of a case, as the judges use it: its name up to the dash.
    pub(crate) fn class(&self) -> &str {
        self.name.split('-').next().unwrap_or_default()
    }

    /// Unpacks the files of this case.
    pub(crate) fn files(&self) -> Files {
        match &self.source {
            Source::Archive(path) => unpack(path),
            Source::Folder(path) => gather(path, &self.name),
        }
    }
}

/// Every case of the set, by folder and name.
pub(crate) fn cases() -> Vec<Case> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let mut all = Vec::new();
    for folder in ["exact", "truth"] {
        let path = data.join(folder);
        for name in names(&path, ".tar.zst") {
            let source = Source::Archive(path.join(format!("{name}.tar.zst")));
            all.push(Case { folder, name, source });
        }
    }
    let path = data.join("recorded");
    for name in names(&path, ".tbops.gz") {
        all.push(Case { folder: "recorded", name, source: Source::Folder(path.clone()) });
    }
    all
}

/// The names of the files that end with `end`, without it, sorted.
fn names(folder: &Path, end: &str) -> Vec<String> {
    let mut names: Vec<String> =
        files(folder).iter().filter_map(|name| name.strip_suffix(end).map(str::to_owned)).collect();
    names.sort();
    assert!(!names.is_empty(), "no {end} in {}", folder.display());
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
