//! Whom a program takes for its service: a socket may have been made by another user, where everybody may make files.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::link::Link;
use tracebuf_std::display::Escaped;
use tracebuf_std::system::user_id;

/// Links that are followed on the way to a socket: as many as Linux follows.
const MOST_LINKS: usize = 40;

/// Users whose services are taken wherever their sockets lie: this one, root, and one more if it was named.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrustedUsers {
    pub(crate) named: Option<u32>,
}

impl TrustedUsers {
    fn has(self, uid: u32) -> bool {
        uid == user_id() || uid == 0 || self.named == Some(uid)
    }

    /// Checks who has made the socket at a path, once there is a connection to it. Where not everybody may make files,
    /// whoever owns the folder has decided that.
    pub(crate) fn check(self, path: &Path, link: &Link) -> io::Result<()> {
        let (folder, owner) = match self.check_way(&std::path::absolute(path)?) {
            // Removed since it was connected to: then the service itself is all there is to go by.
            Err(error) if error.kind() == ErrorKind::NotFound && self.has(link.peer().uid) => return Ok(()),
            checked => checked?,
        };
        if folder.mode() & OTHERS_WRITE == 0 {
            return Ok(());
        }
        // Another one may have taken its place meanwhile.
        let uid = link.peer().uid;
        if self.has(uid) || uid == folder.uid() || uid == owner { Ok(()) } else { Err(not_taken(path, uid)) }
    }

    /// Checks each file on the way, links among them. Returns the last folder, and the user whose the socket is.
    fn check_way(self, path: &Path) -> io::Result<(fs::Metadata, u32)> {
        let mut left: Vec<OsString> = parts_of(path);
        let (mut at, mut links) = (PathBuf::from("/"), 0);
        while let Some(part) = left.pop() {
            if part == ".." {
                at.pop();
                continue;
            }
            let (folder, entry) = (fs::metadata(&at)?, at.join(&part));
            let there = entry.symlink_metadata()?;
            if folder.mode() & OTHERS_WRITE != 0 && !self.has(there.uid()) && there.uid() != folder.uid() {
                return Err(not_taken(&entry, there.uid()));
            }
            if there.is_symlink() {
                links += 1;
                if links > MOST_LINKS {
                    return Err(io::Error::other("too many links lead to each other"));
                }
                let target = fs::read_link(&entry)?;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                left.extend(parts_of(&target));
            } else if left.is_empty() {
                return Ok((folder, there.uid()));
            } else {
                at = entry;
            }
        }
        Err(ErrorKind::NotFound.into())
    }
}

const OTHERS_WRITE: u32 = 0o002;

/// The parts of a path, the first one last.
fn parts_of(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    parts
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| part.as_os_str().to_owned())
        .collect()
}

fn not_taken(path: &Path, uid: u32) -> io::Error {
    let path = Escaped(path.display());
    let why = format!(
        "{path} is user {uid}'s, in a folder where everybody may make files: there only a service of this user, of \
         root, or of one named as service_user is taken"
    );
    io::Error::new(ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use super::*;
    use crate::link::SocketKind;
    use std::time::{Duration, Instant};

    const OTHER: u32 = 65_533;

    #[test]
    fn another_user_s_socket_or_what_leads_to_it_is_not_taken_where_everybody_may_make_files() {
        if user_id() != 0 {
            // Nobody else can give files away.
            return;
        }
        let root = std::env::temp_dir().join(format!("tracebuf-trust-{}", std::process::id()));
        let (shared, inner) = (root.join("shared"), root.join("shared/inner"));
        fs::create_dir_all(&inner).expect("folders");
        let (socket, beside) = (shared.join("socket"), inner.join("socket"));
        let listening =
            [&socket, &beside].map(|path| Link::listening(path, SocketKind::Messages).expect("free"));
        symlink("shared/socket", root.join("own")).expect("a link");
        symlink("../own", shared.join("chain")).expect("a link");
        let taken = |path: &Path, users: TrustedUsers| {
            let deadline = Instant::now() + Duration::from_secs(5);
            let link = Link::connected(path, SocketKind::Messages, deadline).expect("it listens");
            match users.check(path, &link) {
                Ok(()) => true,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
                    assert!(error.to_string().contains(&format!("user {OTHER}'s")), "{error}");
                    false
                }
            }
        };
        let (nobody, named) = (TrustedUsers::default(), TrustedUsers { named: Some(OTHER) });
        for (mode, of_folder, of_entry, is_taken) in [
            (0o1777, 0, 0, true),
            (0o1777, 0, OTHER, false),
            (0o777, 7, OTHER, false),
            // The folder's owner could do anything anyway.
            (0o1777, OTHER, OTHER, true),
            // Those who may make files there were chosen.
            (0o1770, 0, OTHER, true),
            (0o755, 0, OTHER, true),
        ] {
            chown(&shared, Some(of_folder), None).expect("root may");
            fs::set_permissions(&shared, fs::Permissions::from_mode(mode)).expect("root may");
            let chain = shared.join("chain");
            for entry in [&socket, &inner, &chain] {
                lchown(entry, Some(of_entry), None).expect("root may");
                // By itself, by a folder of his, by a link of his, and by a link of one's own to it.
                let paths = match entry {
                    entry if *entry == socket => vec![socket.clone(), root.join("own")],
                    entry if *entry == inner => vec![beside.clone(), inner.join("../inner/socket")],
                    entry => vec![entry.clone()],
                };
                for path in paths {
                    let told = format!("{} {mode:o} {of_folder} {of_entry}", path.display());
                    assert_eq!(taken(&path, nobody), is_taken, "{told}");
                    assert!(taken(&path, named), "{told}");
                }
                lchown(entry, Some(0), None).expect("root may");
            }
        }
        drop(listening);
        fs::remove_dir_all(&root).expect("it is there");
    }
}
