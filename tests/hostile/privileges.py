"""Root without the right to overlook permissions, so that files without them stay closed."""

import ctypes
import os

_OVERRIDE, _READ_SEARCH = 1, 2
_DROP_FROM_BOUNDS = 24
_VERSION_3 = 0x20080522


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Sets(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


def respect_permissions() -> bool:
    """Gives the right up, for this process and those that it starts.

    Returns:
        Whether permissions count now; a user who is not root has nothing to give up.
    """
    if os.geteuid() != 0:
        return True
    library = ctypes.CDLL(None, use_errno=True)
    header, sets = _Header(_VERSION_3, 0), (_Sets * 2)()
    if library.capget(ctypes.byref(header), sets) != 0:
        return False
    dropped = ~(1 << _OVERRIDE | 1 << _READ_SEARCH)
    sets[0].effective &= dropped
    sets[0].permitted &= dropped
    sets[0].inheritable &= dropped
    for right in (_OVERRIDE, _READ_SEARCH):
        library.prctl(_DROP_FROM_BOUNDS, right, 0, 0, 0)
    return library.capset(ctypes.byref(header), sets) == 0
