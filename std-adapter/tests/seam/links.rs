//! Links that other users plant where everybody may write.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;

use tracebuf_std::free_file::{check_is_free, create_if_free, followed};
use tracebuf_std::whole_file::{check_writable, write_atomically};

use crate::files::folder;

/// Somebody who is neither this user nor the owner of any folder here.
const OTHER: u32 = 65_533;

/// Whether every way to a file takes this path, and whether what it leads to is then replaced.
fn is_taken(path: &Path, target: &Path) -> bool {
    fs::write(target, "kept").expect("a file");
    let ways = [
        check_writable(path),
        check_is_free(path),
        followed(path).map(drop),
        write_atomically(path, |file| file.write_all(b"replaced")),
    ];
    let written = fs::read_to_string(target).expect("it is there");
    let emptied = create_if_free(path).map(drop);
    let is_empty = fs::read_to_string(target).expect("it is there").is_empty();
    let taken = ways.each_ref().map(|way| way.is_ok());
    assert_eq!(
        (taken, written.as_str(), is_empty),
        match emptied {
            Ok(()) => ([true; 4], "replaced", true),
            Err(ref error) => {
                assert_eq!(error.kind(), ErrorKind::PermissionDenied);
                ([false; 4], "kept", false)
            }
        }
    );
    emptied.is_ok()
}

#[test]
fn a_link_that_another_user_has_planted_is_not_followed_whatever_the_system_would_do() {
    if !rustix::process::geteuid().is_root() {
        // Nobody else can make a link that is not his.
        return;
    }
    let folder = folder("planted");
    let (target, link, chain) =
        (folder.join("target"), folder.join("shared/link"), folder.join("shared/chain"));
    let shared = folder.join("shared");
    fs::create_dir(&shared).expect("a folder");
    symlink("../target", &link).expect("a link");
    symlink("link", &chain).expect("a link");
    // Of the link; of the folder, and its mode.
    for (of_link, of_folder, mode, follows) in [
        (OTHER, 0, 0o1777, false),
        (OTHER, 7, 0o1777, false),
        // One's own, and that of the one whose folder it is.
        (0, 7, 0o1777, true),
        (OTHER, OTHER, 0o1777, true),
        // Folders in which not everybody may make one, or anybody may replace it.
        (OTHER, 0, 0o1775, true),
        (OTHER, 0, 0o777, true),
    ] {
        lchown(&link, Some(of_link), None).expect("root may");
        lchown(&shared, Some(of_folder), None).expect("root may");
        fs::set_permissions(&shared, Permissions::from_mode(mode)).expect("root may");
        for path in [&link, &chain] {
            assert_eq!(is_taken(path, &target), follows, "{of_link} {of_folder} {mode:o} {}", path.display());
        }
        // Nor is a file made where it leads to.
        fs::remove_file(&target).expect("it is there");
        let made = write_atomically(&link, |file| file.write_all(b"made")).is_ok();
        assert_eq!((made, target.exists()), (follows, follows));
    }
    fs::remove_dir_all(&folder).expect("it is there");
}
