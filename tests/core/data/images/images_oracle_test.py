# SPDX-License-Identifier: Apache-2.0
"""Images are decoded and resized as Pillow does: images_oracle_test.py IMAGE_TOOL."""
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

try:
    from PIL import Image
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOOL = sys.argv[1]


def picture(draw, width, height):
    """Edges, gradients and noise."""
    image = Image.new("RGB", (width, height))
    image.putdata([((x * 7 + y) % 256, 255 * ((x // 3 + y // 2) % 2), draw.randrange(256))
                   for y in range(height) for x in range(width)])
    return image


class ImagesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.draw = random.Random(3)

    def made(self, file, *sizes):
        output = self.folder / "bytes"
        done = subprocess.run([TOOL, file, output, *map(str, sizes)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        height, width = map(int, done.stdout.split())
        return Image.frombytes("RGB", (width, height), output.read_bytes())

    def check_same(self, made, expected, name, bound=0):
        self.assertEqual(made.size, expected.size, name)
        distance = max(abs(a - b) for a, b in zip(made.tobytes(), expected.tobytes()))
        self.assertLessEqual(distance, bound, name)

    def test_png_of_all_modes(self):
        image = picture(self.draw, 33, 21)
        modes = {mode: image.convert(mode) for mode in ("RGB", "L", "P", "1", "RGBA", "LA")}
        modes["RGBA"].putalpha(image.convert("L"))
        for mode, other in modes.items():
            file = self.folder / f"{mode}.png"
            other.save(file)
            self.check_same(self.made(file), Image.open(file).convert("RGB"), mode)
        transparent = self.folder / "transparent.png"
        modes["P"].save(transparent, transparency=3)
        self.check_same(self.made(transparent), modes["P"].convert("RGB"), "transparent")

    def test_png_of_sixteen_bits_has_its_upper_eight(self):
        values = [self.draw.randrange(65536) for _ in range(20 * 10)]
        wide = Image.new("I;16", (20, 10))
        wide.putdata(values)
        file = self.folder / "wide.png"
        wide.save(file)
        made = self.made(file)
        self.assertEqual(made.tobytes(), bytes(value >> 8 for value in values for _ in range(3)))

    def test_jpeg(self):
        image = picture(self.draw, 45, 31)
        for mode in ("RGB", "L", "CMYK"):
            for options in ({"quality": 90}, {"quality": 40, "progressive": True}, {"quality": 80, "subsampling": 0},
                            {"quality": 80, "subsampling": 1}, {"quality": 80, "subsampling": 2}):
                if mode != "RGB" and "subsampling" in options:
                    continue
                file = self.folder / "image.jpg"
                image.convert(mode).save(file, **options)
                # Versions of libjpeg-turbo may round a colour in another direction.
                self.check_same(self.made(file), Image.open(file).convert("RGB"), f"{mode} {options}", bound=1)

    def test_resized_to_the_bit(self):
        image = picture(self.draw, 61, 47)
        file = self.folder / "image.png"
        image.save(file)
        for width, height in ((61, 47), (30, 20), (7, 5), (1, 1), (200, 90), (61, 20), (30, 47), (64, 11), (224, 224)):
            expected = image.resize((width, height), Image.Resampling.BILINEAR)
            self.check_same(self.made(file, height, width), expected, (width, height))

    def test_parts_resized_to_the_bit(self):
        image = picture(self.draw, 61, 47)
        file = self.folder / "image.png"
        image.save(file)
        for _ in range(20):
            width, height = self.draw.randrange(1, 62), self.draw.randrange(1, 48)
            left, top = self.draw.randrange(62 - width), self.draw.randrange(48 - height)
            part = image.crop((left, top, left + width, top + height))
            self.check_same(self.made(file, 32, 24, top, left, height, width),
                            part.resize((24, 32), Image.Resampling.BILINEAR), (left, top, width, height))

    def test_what_evaluations_see(self):
        """As torchvision's Resize(side) and CenterCrop do it (transforms/functional.py), with Pillow's arithmetic."""
        for width, height in ((61, 47), (47, 61), (40, 40), (300, 20), (20, 301)):
            image = picture(self.draw, width, height)
            file = self.folder / "image.png"
            image.save(file)
            for side, (high, wide) in ((32, (28, 28)), (33, (28, 28)), (24, (24, 24)), (50, (31, 40))):
                short, long = sorted((width, height))
                size = (side, side * long // short) if width <= height else (side * long // short, side)
                resized = image.resize(size, Image.Resampling.BILINEAR)
                top, left = round((size[1] - high) / 2), round((size[0] - wide) / 2)
                expected = resized.crop((left, top, left + wide, top + high))
                self.check_same(self.made(file, "evaluated", side, high, wide), expected, (width, height, side))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
