#!/usr/bin/env python3
"""Packs a directory as it looks from a user namespace in which the caller is root.
usage: userns.py CLOISTER-IMAGE DATA-DIR UPPER [LAYER-DIR]..."""
import ctypes, os, signal, subprocess, sys

CLONE_NEWUSER = 0x10000000
tool, data, upper, *below = sys.argv[1:]
ready, tell = os.pipe()
uid, gid = os.geteuid(), os.getegid()
child = os.fork()
if child == 0:
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER):
        os._exit(1)
    os.write(tell, b"x")
    signal.pause()
os.close(tell)
if os.read(ready, 1) != b"x":
    sys.exit("no user namespace")
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
    with open(f"/proc/{child}/{name}", "w") as f:
        f.write(text)
ns = os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
status = subprocess.run([tool, "snapshot-pack", "--data-dir", data, "--upper", upper, "--userns", str(ns), *below], pass_fds=[ns]).returncode
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
sys.exit(status)
