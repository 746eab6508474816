"""Writes tar archives, OCI layouts and docker archives byte by byte, so that a test can put anything into them: names that no
honest tool writes, wrong digests, sparse files of any size, bombs."""
import gzip
import hashlib
import io
import itertools
import json
import os
import zlib

from harness import check

PROC_MAGIC, SYSFS_MAGIC, TMPFS_MAGIC = '9fa0', '62656572', '1021994'
BLOCK = 512


def to_bytes(text):
    return text if isinstance(text, bytes) else text.encode('utf-8', 'surrogateescape')


def up(path):
    """The path, by more ".." than any root has levels."""
    return '../' * 12 + path.lstrip('/')


class Entry:
    """One member. `name` and `target` go in as they are; with `long` in pax records instead of the header."""

    def __init__(self, name, kind=b'0', data=b'', mode=0o644, target=b'', uid=0, gid=0, dev=(0, 0), pax=None, size=None,
                 mtime=1700000000):
        self.name, self.target = to_bytes(name), to_bytes(target)
        self.kind, self.data, self.mode, self.uid, self.gid, self.dev = kind, data, mode, uid, gid, dev
        self.pax = dict(pax or {})
        self.size = len(data) if size is None else size
        self.mtime = mtime

    @classmethod
    def file(cls, name, data=b'', mode=0o644, **more):
        return cls(name, b'0', to_bytes(data), mode, **more)

    @classmethod
    def dir(cls, name, mode=0o755, **more):
        return cls(name, b'5', b'', mode, **more)

    @classmethod
    def link(cls, name, target, **more):
        return cls(name, b'2', b'', 0o777, target, **more)

    @classmethod
    def hard(cls, name, target, **more):
        return cls(name, b'1', b'', 0o644, target, **more)

    @classmethod
    def node(cls, name, kind, major=0, minor=0, **more):
        """kind: 'c', 'b' or 'p'."""
        return cls(name, {'c': b'3', 'b': b'4', 'p': b'6'}[kind], b'', 0o666, dev=(major, minor), **more)

    def __bytes__(self):
        out, pax = b'', {to_bytes(k): to_bytes(v) for k, v in self.pax.items()}
        if len(self.name) > 100:
            pax.setdefault(b'path', self.name)
        if len(self.target) > 100:
            pax.setdefault(b'linkpath', self.target)
        if pax:
            body = b''.join(record(k, v) for k, v in pax.items())
            out += header(b'pax', b'x', len(body), 0o644, b'', 0, 0, (0, 0), 0) + padded(body)
        out += header(self.name[:100], self.kind, self.size, self.mode, self.target[:100], self.uid, self.gid, self.dev,
                      self.mtime)
        return out + padded(self.data)


def record(key, value):
    """A pax record: its length counts itself."""
    n = len(key) + len(value) + 3
    while len(str(n)) + len(key) + len(value) + 3 != n:
        n = len(str(n)) + len(key) + len(value) + 3
    return b'%d %s=%s\n' % (n, key, value)


def padded(data):
    return data + bytes(-len(data) % BLOCK)


def octal(value, width):
    if value >= 8 ** (width - 1):  # GNU base-256
        return b'\x80' + value.to_bytes(width - 1, 'big')
    return b'%0*o\0' % (width - 1, value)


def header(name, kind, size, mode, target, uid, gid, dev, mtime, magic=b'ustar\x0000'):
    h = (name.ljust(100, b'\0') + octal(mode, 8) + octal(uid, 8) + octal(gid, 8) + octal(size, 12) + octal(mtime, 12) +
         b' ' * 8 + kind + target.ljust(100, b'\0') + magic + b'root'.ljust(32, b'\0') + b'root'.ljust(32, b'\0') +
         octal(dev[0], 8) + octal(dev[1], 8)).ljust(BLOCK, b'\0')
    return h[:148] + b'%06o\0 ' % sum(h) + h[156:]


def sparse(name, real_size, data=b'end'):
    """An old GNU sparse member: `data` at the end of a hole of any size."""
    h = bytearray(header(to_bytes(name), b'S', len(data), 0o644, b'', 0, 0, (0, 0), 0, b'ustar  \0'))
    h[386:398] = octal(real_size - len(data), 12)
    h[398:410] = octal(len(data), 12)
    h[483:495] = octal(real_size, 12)
    h[148:156] = b' ' * 8
    h[148:156] = b'%06o\0 ' % sum(h)
    return bytes(h) + padded(data)


def tar(entries):
    return b''.join(bytes(e) for e in entries) + bytes(2 * BLOCK)


def digest(data):
    return 'sha256:' + hashlib.sha256(data).hexdigest()


class Layer:
    """A layer blob; `diff` is the digest of its tar, which is not always told truly."""

    def __init__(self, data, compress='gzip', diff=None):
        raw = data if isinstance(data, bytes) else tar(data)
        self.diff = diff or digest(raw)
        self.blob = gzip.compress(raw, 1, mtime=0) if compress == 'gzip' else raw
        self.media = 'application/vnd.oci.image.layer.v1.tar' + ('+gzip' if compress == 'gzip' else '')


class RawLayer(Layer):
    def __init__(self, blob, diff, media='application/vnd.oci.image.layer.v1.tar+gzip'):
        self.blob, self.diff, self.media = blob, diff, media


MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
INDEX = 'application/vnd.oci.image.index.v1+json'
CONFIG = 'application/vnd.oci.image.config.v1+json'


def layout(layers, config=None, change=None, files=None):
    """The bytes of a tar of an OCI layout. `change(parts)` may spoil the parts before they are written: config, manifest and
    index as dicts, blobs by digest. `files`: more members."""
    full = {'architecture': 'amd64', 'os': 'linux', 'config': config or {},
            'rootfs': {'type': 'layers', 'diff_ids': [l.diff for l in layers]}}
    parts = {'config': full, 'blobs': {}, 'layers': [
        {'mediaType': l.media, 'digest': digest(l.blob), 'size': len(l.blob)} for l in layers], 'descriptor': {}, 'index': None}
    for l in layers:
        parts['blobs'][digest(l.blob)] = l.blob
    if change:
        change(parts)
    raw_config = parts.get('raw_config') or json.dumps(parts['config']).encode()
    parts['blobs'].setdefault(digest(raw_config), raw_config)
    manifest = {'schemaVersion': 2, 'mediaType': MANIFEST, 'layers': parts['layers'],
                'config': {'mediaType': CONFIG, 'digest': digest(raw_config), 'size': len(raw_config)}}
    manifest.update(parts.get('manifest', {}))
    raw_manifest = parts.get('raw_manifest') or json.dumps(manifest).encode()
    described = {'mediaType': MANIFEST, 'digest': digest(raw_manifest), 'size': len(raw_manifest)}
    described.update(parts['descriptor'])
    parts['blobs'].setdefault(digest(raw_manifest), raw_manifest)
    index = parts['index'](described, parts) if parts['index'] else {'schemaVersion': 2, 'mediaType': INDEX,
                                                                     'manifests': [described]}
    if parts.get('late'):
        parts['late'](parts)
    members = [Entry.file('oci-layout', b'{"imageLayoutVersion": "1.0.0"}'), Entry.file('index.json', json.dumps(index)),
               Entry.dir('blobs'), Entry.dir('blobs/sha256')]
    members += [Entry.file('blobs/' + d.replace(':', '/'), blob) for d, blob in parts['blobs'].items()]
    return tar(members + (files or []))


def docker_archive(layers, config=None, names=None, change=None):
    full = {'architecture': 'amd64', 'os': 'linux', 'config': config or {},
            'rootfs': {'type': 'layers', 'diff_ids': [l.diff for l in layers]}}
    raw = json.dumps(full).encode()
    name = hashlib.sha256(raw).hexdigest() + '.json'
    paths = names or [f'{i}/layer.tar' for i in range(len(layers))]
    manifest = [{'Config': name, 'RepoTags': ['hostile:latest'], 'Layers': paths}]
    if change:
        change(manifest)
    return tar([Entry.file('manifest.json', json.dumps(manifest)), Entry.file(name, raw)] +
               [Entry.file(p, l.blob) for p, l in zip(paths, layers)])


def gzip_zeros(head, total, tail=b''):
    """gzip of head, `total` zero bytes and tail, made of one small member repeated: costs nothing to make."""
    piece = 1 << 24
    zeros = gzip.compress(bytes(piece), 9, mtime=0)
    assert total % piece == 0
    return gzip.compress(head, mtime=0) + zeros * (total // piece) + gzip.compress(tail, mtime=0)


def payload(name):
    """A built C payload."""
    return open(os.path.join(os.environ['HOSTILE_PAYLOADS'], name), 'rb').read()


def elf_with_interpreter(interpreter):
    """The smallest program that asks for a loader: the kernel reads it, our loader never looks at it."""
    path = to_bytes(interpreter) + b'\0'
    base, phoff, count = 0x400000, 64, 2
    text = phoff + 56 * count
    size = text + len(path)

    def segment(kind, flags, offset, length):
        return (kind.to_bytes(4, 'little') + flags.to_bytes(4, 'little') +
                b''.join(v.to_bytes(8, 'little') for v in (offset, base + offset, base + offset, length, length, 0x1000)))
    head = (b'\x7fELF\2\1\1' + bytes(9) + (2).to_bytes(2, 'little') + (62).to_bytes(2, 'little') + (1).to_bytes(4, 'little') +
            (base + text).to_bytes(8, 'little') + phoff.to_bytes(8, 'little') + bytes(8) + bytes(4) +
            b''.join(v.to_bytes(2, 'little') for v in (64, 56, count, 0, 0, 0)))
    return head + segment(3, 4, text, len(path)) + segment(1, 5, 0, size) + path


# ---- importing ----

numbers = itertools.count(1)


def save(world, data):
    path = os.path.join(world.scratch, f'image{next(numbers)}.tar')
    with open(path, 'wb') as f:
        f.write(data)
    world.own(path, 0o644)
    return path


def try_import(world, data, name=None, env=None, timeout=120):
    """(name, Result) of an import of these bytes."""
    name = name or f'hostile/test{next(numbers)}'
    path = save(world, data)
    try:
        return name, world.tool('image', 'import', '--name', name, path, env=env, timeout=timeout)
    finally:
        os.unlink(path)


def image(world, layers, config=None, **how):
    """Imports an image that must be accepted; its name."""
    layers = [l if isinstance(l, Layer) else Layer(l) for l in layers]
    name, r = try_import(world, layout(layers, config, **how))
    check(r.code == 0, 'an image that should be fine was refused:', r)
    return name


def skeleton(mounts=True):
    entries = [Entry.dir('tmp', 0o1777), Entry.dir('etc'), Entry.file('box', payload('box'), 0o755),
               Entry.file('etc/passwd', b'root:x:0:0:root:/:/box\nann:x:1000:1000::/tmp:/box\n'),
               Entry.file('etc/group', b'root:x:0:\nann:x:1000:\nextra:x:2000:ann\n')]
    if mounts:
        entries += [Entry.dir(d) for d in ('proc', 'sys', 'dev', 'run')]
    return entries


def box_image(world, tag, entries, mounts=True, config=None):
    """An image of one layer with /box and these entries."""
    return image(world, [skeleton(mounts) + list(entries)], config)
