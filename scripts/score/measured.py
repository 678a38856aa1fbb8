# SPDX-License-Identifier: Apache-2.0
"""What a table of efficiencies is fitted to: the measured times of one operator and type on one device."""

import json
import pathlib

import operator_grid

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEFT_OUT = 5  # one shape or pair in so many


def profile_file(name):
    """The file of a cluster profile."""
    return ROOT / "recipes/clusters" / f"{name}.json"


def device_of(name):
    """A profile's section "device"."""
    return json.loads(profile_file(name).read_text())["device"]


def quantiles(errors):
    """Median and ninetieth of a hundred."""
    return errors[len(errors) // 2], errors[len(errors) * 9 // 10]


class Measured:
    """The measured efficiencies of one operator and type on one device. `growth`: as operator_grid.fit takes it, of a
    grid. `pair_of`: what of a shape is left out together."""

    def __init__(self, axes, growth, efficiencies, pair_of):
        self.axes = dict(axes)
        self.shapes = sorted(efficiencies)
        self.efficiencies = [efficiencies[shape] for shape in self.shapes]
        self.pair_of = pair_of
        for place, (name, sizes) in enumerate(self.axes.items()):
            # Nothing beyond what was measured, but two sizes at least.
            largest = max(self.at(shape)[place] for shape in self.shapes)
            kept = [size for size in sizes if size <= largest]
            self.axes[name] = kept if len(kept) > 1 else list(sizes[:2])
        self.grid = operator_grid.Grid(list(self.axes.values()))
        self.growth = growth(self.grid)

    def at(self, shape):
        """A shape's place in the grid."""
        return shape

    def fit(self, left_out=()):
        """The table, from all shapes but those with these indices."""
        kept = [i for i in range(len(self.shapes)) if i not in left_out]
        shapes, values = [self.at(self.shapes[i]) for i in kept], [self.efficiencies[i] for i in kept]
        return operator_grid.fit(self.grid, shapes, values, self.growth)

    def ratio(self, table, index):
        """Time by the table ÷ measured time."""
        return self.efficiencies[index] / self.grid.read(table, self.at(self.shapes[index]))

    def errors(self, table, chosen):
        """Absolute errors of times, in percent, in increasing order."""
        return sorted(100 * abs(self.ratio(table, i) - 1) for i in chosen)

    def scores(self):
        """Number of shapes, and the median and the ninetieth of a hundred errors: of those that the table was fitted
        to, of shapes and of pairs that were left out."""
        everything = range(len(self.shapes))
        pairs = sorted({self.pair_of(shape) for shape in self.shapes})
        out = set(pairs[LEFT_OUT // 2 :: LEFT_OUT]) if len(pairs) >= LEFT_OUT else set()
        groups = (
            set(everything[LEFT_OUT // 2 :: LEFT_OUT]),
            {i for i in everything if self.pair_of(self.shapes[i]) in out},
        )
        yield len(self.shapes), quantiles(self.errors(self.fit(), everything))
        for group in groups:
            if group:
                yield len(group), quantiles(self.errors(self.fit(group), sorted(group)))
