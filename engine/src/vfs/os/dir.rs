//! Folders of the real disk.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawMode};
use rustix::io::Errno;

use super::failed;
use super::file::OsFile;
use crate::error::{Error, ErrorKind, Result};
use crate::vfs::{Access, DirEntry, EntryKind, OpenHow, Ownership, Space, VfsDir, VfsFile};

/// Magic numbers of file systems whose locks or page cache are not those of one machine.
#[cfg(target_os = "linux")]
const NETWORK: [u64; 14] = [
    0x6969,      // NFS
    0x517B,      // SMB
    0xFE53_4D42, // SMB2
    0xFF53_4D42, // CIFS
    0x0102_1997, // 9p
    0x6573_5546, // FUSE
    0x5346_414F, // AFS
    0x6B41_4653, // AFS of the kernel
    0x7375_7245, // Coda
    0x0116_1970, // GFS2
    0x4750_4653, // GPFS
    0x0BD0_0BD0, // Lustre
    0x00C3_6400, // Ceph
    0x7461_636F, // OCFS2
];

/// An open folder.
#[derive(Debug)]
pub(super) struct OsDir {
    fd: OwnedFd,
    path: PathBuf,
}

pub(super) fn dir_mode(access: Access) -> Mode {
    match access {
        Access::Private => Mode::RWXU,
        Access::Group => Mode::RWXU | Mode::RWXG,
    }
}

/// Makes a folder by path and syncs its name.
pub(super) fn make_path(path: &Path, access: Access) -> Result<()> {
    match rustix::fs::mkdir(path, dir_mode(access)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(e) => return Err(failed("mkdir", path, e)),
    }
    OsDir::open_path(above(path))?.sync()
}

/// The folder that a path's last name is in.
pub(super) fn above(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl OsDir {
    pub(super) fn open_path(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failed("open", path, e))?;
        Ok(Self { fd, path: path.to_path_buf() })
    }

    fn at(&self, name: &str) -> Result<PathBuf> {
        let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']);
        if plain {
            return Ok(self.path.join(name));
        }
        Err(Error::invalid("file name", "it must be one path component"))
    }

    /// Why a file was not opened: what stands there counts for more than the code, which differs by kind.
    fn not_opened(&self, name: &str, path: &Path, e: Errno) -> Error {
        let plain = match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile,
            Err(_) => true,
        };
        if plain || e == Errno::EXIST { failed("openat", path, e) } else { not_plain(path) }
    }
}

impl VfsDir for OsDir {
    fn create_dir(&self, name: &str, access: Access) -> Result<()> {
        let path = self.at(name)?;
        rustix::fs::mkdirat(&self.fd, name, dir_mode(access))
            .map_err(|e| failed("mkdirat", &path, e))
    }

    fn open_dir(&self, name: &str) -> Result<Arc<dyn VfsDir>> {
        let path = self.at(name)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::empty())
            .map_err(|e| failed("openat", &path, e))?;
        Ok(Arc::new(Self { fd, path }))
    }

    fn open(&self, name: &str, how: OpenHow) -> Result<Arc<dyn VfsFile>> {
        let path = self.at(name)?;
        if cfg!(not(target_os = "linux")) && how != OpenHow::Read {
            return Err(not_here(&path));
        }
        let base = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let (flags, mode) = match how {
            OpenHow::Read => (OFlags::RDONLY, Mode::empty()),
            OpenHow::ReadWrite => (OFlags::RDWR, Mode::empty()),
            OpenHow::CreateNew(Access::Private) => {
                (OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR)
            }
            OpenHow::CreateNew(Access::Group) => (
                OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
                Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP,
            ),
        };
        let open = || rustix::fs::openat(&self.fd, name, base | flags, mode);
        let fd = rustix::io::retry_on_intr(open).map_err(|e| self.not_opened(name, &path, e))?;
        let stat = rustix::fs::fstat(&fd).map_err(|e| failed("fstat", &path, e))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(not_plain(&path));
        }
        match (how, stat.st_nlink) {
            // Removed between the two calls.
            (OpenHow::ReadWrite, 0) => return Err(failed("openat", &path, Errno::NOENT)),
            (OpenHow::ReadWrite, 2..) => return Err(not_plain(&path)),
            _ => {}
        }
        Ok(Arc::new(OsFile::new(fd, path)))
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        let path = self.at(to)?;
        self.at(from)?;
        rustix::fs::linkat(&self.fd, from, &self.fd, to, AtFlags::empty())
            .map_err(|e| failed("linkat", &path, e))
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.at(name)?;
        rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())
            .map_err(|e| failed("unlinkat", &path, e))
    }

    fn remove_dir(&self, name: &str) -> Result<()> {
        let path = self.at(name)?;
        rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)
            .map_err(|e| failed("unlinkat", &path, e))
    }

    fn list(&self) -> Result<Vec<DirEntry>> {
        let fail = |e| failed("getdents", &self.path, e);
        let mut out = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                        Err(Errno::NOENT) => continue,
                        Err(e) => return Err(fail(e)),
                    }
                }
                known => known,
            };
            let kind = match kind {
                FileType::RegularFile => EntryKind::File,
                FileType::Directory => EntryKind::Dir,
                _ => EntryKind::Other,
            };
            out.push(DirEntry { name: name.to_bytes().to_vec(), kind });
        }
        Ok(out)
    }

    fn sync(&self) -> Result<()> {
        // Not called again after EINTR or any error: that would prove nothing (D5).
        rustix::fs::fsync(&self.fd).map_err(|e| failed("fsync", &self.path, e))
    }

    fn space(&self) -> Result<Space> {
        let s = rustix::fs::fstatvfs(&self.fd).map_err(|e| failed("fstatvfs", &self.path, e))?;
        Ok(Space {
            free_bytes: s.f_bavail.saturating_mul(s.f_frsize),
            total_bytes: s.f_blocks.saturating_mul(s.f_frsize),
        })
    }

    #[cfg(target_os = "linux")]
    fn is_network(&self) -> Result<bool> {
        let s = rustix::fs::fstatfs(&self.fd).map_err(|e| failed("fstatfs", &self.path, e))?;
        // The field is signed on some machines: only its low 32 bits are the number.
        Ok(NETWORK.contains(&(s.f_type as u64 & 0xFFFF_FFFF)))
    }

    #[cfg(not(target_os = "linux"))]
    fn is_network(&self) -> Result<bool> {
        Ok(false)
    }

    fn ownership(&self) -> Result<Ownership> {
        let s = rustix::fs::fstat(&self.fd).map_err(|e| failed("fstat", &self.path, e))?;
        Ok(ownership(s.st_uid, s.st_mode))
    }
}

pub(super) fn ownership(uid: u32, mode: RawMode) -> Ownership {
    let mode = Mode::from_raw_mode(mode);
    Ownership {
        own: uid == rustix::process::geteuid().as_raw(),
        group_write: mode.contains(Mode::WGRP),
        world: mode.contains(Mode::WOTH),
    }
}

fn not_here(path: &Path) -> Error {
    Error::new(ErrorKind::Unsupported, "stores are written on Linux only; open it read-only")
        .with_path(path)
}

fn not_plain(path: &Path) -> Error {
    Error::new(
        ErrorKind::InsecurePermissions,
        "it is no regular file with one name; take away what stands there",
    )
    .with_path(path)
}
