//! Tests of the kernel's events as a source: what it says without any.

use super::*;

#[test]
fn whoever_may_not_read_them_is_told_what_to_do() {
    let told = |kind: io::ErrorKind| Unavailable(kind.into()).to_string();
    assert!(told(io::ErrorKind::PermissionDenied).contains("sudo"));
    assert!(told(io::ErrorKind::NotFound).contains("mount -t tracefs"));
    let told = told(io::ErrorKind::ReadOnlyFilesystem);
    assert!(told.contains("read-only") && told.contains("remount,rw"), "{told}");
}

#[test]
fn periods_and_versions_are_taken_as_they_can_be() {
    let period = |time| FtraceOptions::new(["sched/*"]).period(time).period;
    assert_eq!(period(Duration::ZERO), Duration::from_millis(1));
    assert_eq!(period(Duration::MAX), Duration::from_secs(60));
    assert!(kernel_version() > Some((3, 0)));
}

mod of_a_kernel;
