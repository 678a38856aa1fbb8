# SPDX-License-Identifier: Apache-2.0
"""Compares what two builds plan and train. Usage: scripts/compare_builds --help"""
import argparse
import itertools
import os
import pathlib
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import builds
import differences
import plan_cases
import run_cases

DESCRIPTION = """Compares what two builds plan and train, where a change of the program may change nothing.

Plans must be equal in bytes, FLOPs and all else; what is computed from times may differ by 1e-12 of itself. Runs must
have the same losses and other metrics, checkpoints bitwise, and the same samples and evaluations. What one build
refuses the other must refuse in the same words. Each case that differs gets a line; the exit code is 1 if any does."""
SHOWN = 3


class Comparison:
    def __init__(self, before, after, work, keep):
        self.before, self.after = builds.Build("before", before, work), builds.Build("after", after, work)
        self.keep = keep
        self.count = self.refused = self.different = self.skipped = 0

    def compare(self, case):
        """Both results of a case, and how they differ."""
        results = [build.run(case) for build in (self.before, self.after)]
        found = list(itertools.islice(differences.of_case(*results), SHOWN + 1))
        if not found and case.number is None and results[0].refused():
            found = [f"both refuse it: {differences.last_line(results[0])}"]
        if not (found and self.keep):
            for result in results:
                shutil.rmtree(result.folder)
        return case, results, found

    def report(self, case, results, found):
        self.count += 1
        self.refused += results[0].refused()
        if not found:
            return
        self.different += 1
        more = "; ..." if len(found) > SHOWN else ""
        print(f"{case.name}: {'; '.join(found[:SHOWN])}{more}", flush=True)

    def compare_all(self, pool, cases):
        """Returns how many of the cases both builds have carried out."""
        carried_out = 0
        known = [case for case in cases if self.before.has(case.program) and self.after.has(case.program)]
        self.skipped += len(cases) - len(known)
        for case, results, found in pool.map(self.compare, known):
            self.report(case, results, found)
            carried_out += not any(result.refused() for result in results)
        return carried_out

    def compare_random(self, pool, make, number):
        """Draws layouts until both builds have carried out as many; a difference counts as carried out."""
        drawn = carried_out = 0
        while carried_out < number and drawn < 6 * number:
            wanted = number - carried_out
            cases = [make(each) for each in range(drawn, drawn + wanted)]
            drawn += wanted
            carried_out += self.compare_all(pool, cases)
        if carried_out < number:
            print(f"only {carried_out} of {drawn} random layouts are carried out by both builds", flush=True)


def parse():
    parser = argparse.ArgumentParser(prog="scripts/compare_builds", description=DESCRIPTION,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", metavar="BEFORE", help="build folder, with llmtrain and its libraries")
    parser.add_argument("after", metavar="AFTER", help="build folder to be compared with it")
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--plans", action="store_true", help="only plans")
    parts.add_argument("--runs", action="store_true", help="only runs")
    parser.add_argument("--number", type=int, default=136, metavar="N",
                        help="random layouts that both builds carry out, of plans and of runs each (136)")
    parser.add_argument("--seed", type=int, default=34, help="of the random layouts (34)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases with this text in their names")
    parser.add_argument("--list", action="store_true", help="print the names of the cases, and compare nothing")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the files of cases that differ in this new folder")
    return parser.parse_args()


def chosen(cases, options):
    return [case for case in cases if options.only in case.name]


def parts_of(options):
    """(fixed cases, maker of random ones) of what is compared."""
    if not options.runs:
        yield list(plan_cases.bundled()), lambda number: plan_cases.random_plan(options.seed, number)
    if not options.plans:
        yield list(run_cases.fixed()), lambda number: run_cases.random_run(options.seed, number)


def compare(options, work):
    start = time.monotonic()
    comparison = Comparison(options.before, options.after, work, options.keep is not None)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for fixed, make in parts_of(options):
            comparison.compare_all(pool, chosen(fixed, options))
            if options.only:  # names of random layouts are their numbers
                comparison.compare_all(pool, chosen([make(number) for number in range(6 * options.number)], options))
            else:
                comparison.compare_random(pool, make, options.number)
    skipped = f", {comparison.skipped} skipped, for which a build has no program" if comparison.skipped else ""
    print(f"{comparison.count} cases, {comparison.refused} of them refused by both: {comparison.different or 'none'} "
          f"differ{skipped}; {time.monotonic() - start:.0f} s")
    if comparison.count == 0:
        print("scripts/compare_builds: nothing was compared", file=sys.stderr)
    return 1 if comparison.different or comparison.count == 0 else 0


def main():
    options = parse()
    for build in (options.before, options.after):
        if not os.access(pathlib.Path(build) / builds.PROGRAM, os.X_OK):
            sys.exit(f"scripts/compare_builds: there is no program {pathlib.Path(build) / builds.PROGRAM}")
    if options.list:
        print("\n".join(case.name for fixed, _ in parts_of(options) for case in chosen(fixed, options)))
        return 0
    if options.keep:
        pathlib.Path(options.keep).mkdir(parents=True)
        return compare(options, pathlib.Path(options.keep).resolve())
    with tempfile.TemporaryDirectory(prefix="compare-builds-") as work:
        return compare(options, pathlib.Path(work))


if __name__ == "__main__":
    sys.exit(main())
