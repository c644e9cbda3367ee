"""Whose the directories above a place of ours are: a path in, what somebody else could exchange there out. All that a
command writes where its user names a place goes through here.

Who may write to a directory may rename what lies in it and lay something else there, whatever the modes of that are. So
a place is only as safe as every directory on the way to it. The rules that must hold:

    who runs it   refused above a place of ours
    root          a directory that is another user's; one to which everybody may write, unless it is sticky
    others        one to which everybody may write, unless it is sticky or the top of a volume that root mounted

and for both a link that somebody else laid on the way. sshd's StrictModes and sudo's secure paths are stricter, and no
group may write there. Here it may: a directory that a project's group shares (2775) is how servers and Kubernetes
(fsGroup) let several accounts write runs, and who made it so vouches for the group. Who is not root has only his own
rights to lose, and his home is often below somebody else's directory. In Kubernetes the top of a volume is open to
everybody more often than not (emptyDir, NFS and k3s' local-path make it 0777): who mounts it decides who reaches it.

Sources: path_resolution(7), inode(7) on the sticky bit, proc_sys_fs(5) on protected_symlinks; sshd_config(5).
"""

import os
import pwd
import stat
from pathlib import Path
from typing import Final

from tidegauge.snapshots.errors import SnapshotError

_ANY_NAME: Final = "any"
_MOST_LINKS: Final = 40
"""As many as Linux follows (path_resolution(7))."""


def weakness_above(place: Path) -> str | None:
    """A sentence about the first directory or link above `place` by which somebody else could exchange it, and what to
    do; None if there is none. What is not there yet is made by us. `place` itself, where it is no link, is not looked
    at. A place that cannot be reached has no weakness: whoever opens it is told why.
    """
    here = Path(os.sep)
    left = list(reversed(place.absolute().parts[1:]))
    links = 0
    try:
        while left:
            name = left.pop()
            if name == os.pardir:
                here = here.parent  # `here` has no link in it
                continue
            directory, found = here.lstat(), (here / name).lstat()
            if told := _of_directory(here, directory):
                return told
            if not stat.S_ISLNK(found.st_mode):
                here /= name
                continue
            if told := _of_link(here / name, found, directory):
                return told
            links += 1
            if links > _MOST_LINKS:
                return None
            target = (here / name).readlink()
            left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            here = Path(os.sep) if target.is_absolute() else here
    except FileNotFoundError:
        return _of_directory(here, here.lstat())
    except (NotADirectoryError, PermissionError):
        return None
    return None


def check_above(place: Path) -> None:
    """Raises `SnapshotError` where somebody else could exchange what is written at `place`."""
    if weakness := weakness_above(place):
        raise SnapshotError(f"Nothing is written to {place}: it is not safe there. {weakness}")


def check_within(directory: Path) -> None:
    """The same for what is written into a directory, which may not be there yet."""
    check_above(directory / _ANY_NAME)


def made_safe(directory: Path) -> None:
    """Makes a directory to write into where there is none. Raises `SnapshotError` as `check_within`, and `OSError`.

    In /tmp anybody may be quicker: what was not there when it was looked at is looked at again once it is made.
    """
    check_within(directory)
    directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    check_within(directory)


def trusted() -> frozenset[int]:
    """Root, and who runs us; where that is root by way of sudo, whoever asked sudo for it."""
    asked = os.environ.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    return frozenset({0, os.geteuid()} | ({int(asked)} if asked.isascii() and asked.isdecimal() else set()))


def _of_directory(directory: Path, found: os.stat_result) -> str | None:
    is_root = os.geteuid() == 0
    if is_root and found.st_uid not in trusted():
        return (
            f"{directory} belongs to {_user(found.st_uid)}, who could exchange what root writes below it. Name a place "
            f"below directories of root's, take this one (chown root {directory}), or run the command as that user."
        )
    if not found.st_mode & stat.S_IWOTH or found.st_mode & stat.S_ISVTX:
        return None
    if not is_root and found.st_uid == 0 and os.path.ismount(directory):
        return None
    return (
        f"Everybody may write to {directory}, and could exchange what is written below it. Close it (chmod o-w "
        f"{directory}), let nobody exchange what is another's there (chmod +t {directory}), or name a place elsewhere."
    )


def _of_link(link: Path, found: os.stat_result, directory: os.stat_result) -> str | None:
    """As the kernel has it (protected_symlinks): in a directory of his own somebody may lead where he likes."""
    if found.st_uid in trusted() or (os.geteuid() != 0 and found.st_uid == directory.st_uid):
        return None
    return (
        f"{link} is a link of {_user(found.st_uid)}, who can lead it anywhere. See who laid it and remove it, or name "
        "a place elsewhere."
    )


def _user(uid: int) -> str:
    try:
        return f"user {uid} ({pwd.getpwuid(uid).pw_name})"
    except KeyError:
        return f"user {uid}"
