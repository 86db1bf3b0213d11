"""Reads DNS messages with dnspython and ldns: from standard input, each behind its length in two bytes.

With --probe it only says whether both are here. Fails, and shows the message, if one of them cannot read one.
"""
import ctypes
import sys

import dns.message

LDNS = ctypes.CDLL("libldns.so.3")
LDNS.ldns_wire2pkt.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_char_p, ctypes.c_size_t]
LDNS.ldns_pkt_free.argtypes = [ctypes.c_void_p]
MOST_SHOWN = 20


def faults(message):
    """Why the message cannot be read, by library."""
    try:
        dns.message.from_wire(message)
    except Exception as error:  # Any of them means that it is not read.
        yield f"dnspython: {type(error).__name__} {error}"
    packet = ctypes.c_void_p()
    status = LDNS.ldns_wire2pkt(ctypes.byref(packet), message, len(message))
    if status != 0:
        yield f"ldns: {status}"
    else:
        LDNS.ldns_pkt_free(packet)


def main():
    if "--probe" in sys.argv:
        return 0
    shown = 0
    while head := sys.stdin.buffer.read(2):
        message = sys.stdin.buffer.read(int.from_bytes(head, "big"))
        for fault in faults(message):
            print(f"{fault}: {message.hex()}", file=sys.stderr)
            shown += 1
        if shown >= MOST_SHOWN:
            break
    return 1 if shown else 0


sys.exit(main())
