"""What kind of binary a file is, from its first bytes, in words for a person."""

from __future__ import annotations

SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "PNG image"),
    (0, b"\xff\xd8\xff", "JPEG image"),
    (0, b"GIF8", "GIF image"),
    (0, b"BM", "BMP image"),
    (8, b"WEBP", "WebP image"),
    (0, b"\0\0\1\0", "Windows icon"),
    (0, b"II*\0", "TIFF image"),
    (0, b"MM\0*", "TIFF image"),
    (0, b"%PDF-", "PDF document"),
    (0, b"PK\3\4", "ZIP archive (also JAR, DOCX, XLSX, wheel)"),
    (0, b"PK\5\6", "empty ZIP archive"),
    (0, b"\x1f\x8b", "gzip data"),
    (0, b"BZh", "bzip2 data"),
    (0, b"\xfd7zXZ\0", "xz data"),
    (0, b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (0, b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (0, b"Rar!", "RAR archive"),
    (257, b"ustar", "tar archive"),
    (0, b"\x7fELF", "ELF program or library"),
    (0, b"MZ", "Windows program or library"),
    (0, b"\xca\xfe\xba\xbe", "Java class or Mach-O universal binary"),
    (0, b"\xcf\xfa\xed\xfe", "Mach-O program or library"),
    (0, b"\xfe\xed\xfa\xcf", "Mach-O program or library"),
    (0, b"!<arch>\n", "static library"),
    (0, b"\0asm", "WebAssembly module"),
    (0, b"SQLite format 3\0", "SQLite database"),
    (0, b"DIRC", "git index"),
    (0, b"PACK", "git pack"),
    (0, b"\xfftOc", "git pack index"),
    (0, b"wOFF", "web font"),
    (0, b"wOF2", "web font"),
    (0, b"\0\1\0\0\0", "TrueType font"),
    (0, b"OTTO", "OpenType font"),
    (0, b"ID3", "MP3 audio"),
    (0, b"OggS", "Ogg media"),
    (0, b"fLaC", "FLAC audio"),
    (8, b"WAVE", "WAV audio"),
    (4, b"ftyp", "MP4 or QuickTime video"),
    (0, b"\x1aE\xdf\xa3", "Matroska or WebM video"),
    (0, b"\x80\2", "Python pickle"),
    (0, b"\x80\3", "Python pickle"),
    (0, b"\x80\4", "Python pickle"),
    (0, b"\x93NUMPY", "NumPy array"),
    (0, b"\xd0\xcf\x11\xe0", "old Microsoft Office document"),
)
ALWAYS_BINARY = (b"%PDF-",)
"""Formats that may begin with plain text and are binary all the same."""


def kind_of(head: bytes) -> str:
    """A name for the format, or `unknown type`."""
    for offset, magic, name in SIGNATURES:
        if head.startswith(magic, offset):
            return name
    if head[2:4] == b"\r\n" and head[:1] != b"\0":
        return "Python bytecode"
    return "only zero bytes" if head and not head.strip(b"\0") else "unknown type"
