# SPDX-License-Identifier: Apache-2.0
"""What of BPF is in the kernel: objects by their numbers, and which of them a process holds. Root only."""

import contextlib
import ctypes
import errno
import os
import re
from pathlib import Path

SYS_BPF = 321 if os.uname().machine == "x86_64" else 280
GET_FD_BY_ID = {"prog": 13, "map": 14, "link": 30}  # enum bpf_cmd
MAP_LOOKUP_ELEM = 1
libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attr):
    """bpf(2): the result, or a negative errno. attr: bytes."""
    buffer = ctypes.create_string_buffer(attr.ljust(128, b"\0"), 128)
    result = libc.syscall(SYS_BPF, command, buffer, 128)
    return result if result >= 0 else -ctypes.get_errno()


def loaded(kind, number):
    """Whether the kernel has an object of this number. Numbers are not given out again soon."""
    fd = bpf(GET_FD_BY_ID[kind], number.to_bytes(4, "little"))
    if fd >= 0:
        os.close(fd)
        return True
    assert fd == -errno.ENOENT, os.strerror(-fd)
    return False


def held(pid):
    """What a process holds by descriptors: {(kind, number)}."""
    found = set()
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fdinfo"):
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{pid}/fdinfo/{name}").read_text()
                found |= {
                    (kind, int(number)) for kind, number in re.findall(r"^(link|prog|map)_id:\s*(\d+)", text, re.M)
                }
    return found


def memory(pid, kind="map"):
    """Bytes of kernel memory of the maps that a process holds."""
    sizes = {}
    for name in os.listdir(f"/proc/{pid}/fdinfo"):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/fdinfo/{name}").read_text()
            number = re.search(rf"^{kind}_id:\s*(\d+)", text, re.M)
            size = re.search(r"^memlock:\s*(\d+)", text, re.M)
            if number and size:
                sizes[number.group(1)] = int(size.group(1))
    return sum(sizes.values())


def record(pid):
    """What the kernel's exec check has counted in the session of a warden: (compared and equal, killed)."""
    number = next(number for kind, number in held(pid) if kind == "map")
    fd = bpf(GET_FD_BY_ID["map"], number.to_bytes(4, "little"))
    assert fd >= 0, os.strerror(-fd)
    key, value = ctypes.create_string_buffer(4), ctypes.create_string_buffer(1024)
    attr = b"".join(n.to_bytes(8, "little") for n in (fd, ctypes.addressof(key), ctypes.addressof(value)))
    result = bpf(MAP_LOOKUP_ELEM, attr)
    os.close(fd)
    assert result == 0, os.strerror(-result)
    return int.from_bytes(value.raw[:8], "little"), int.from_bytes(value.raw[8:16], "little")
