"""Runs the tests of one module and prints TAP, a line for each. Usage: tap.py MODULE"""
import sys
import traceback
import unittest


class Tap(unittest.TestResult):
    count = 0
    failed_part = False

    def line(self, words, test, note=""):
        self.count += 1
        print(f"{words} {self.count} - {test.id()}{note}", flush=True)

    def explain(self, err):
        for line in "".join(traceback.format_exception(*err)).splitlines():
            print(f"# {line}")

    def startTest(self, test):
        super().startTest(test)
        self.failed_part = False

    def addSuccess(self, test):
        self.line("not ok" if self.failed_part else "ok", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.explain(err)
        self.line("not ok", test)

    def addError(self, test, err):
        super().addError(test, err)
        self.explain(err)
        self.line("not ok", test)

    def addSkip(self, test, reason):
        self.line("ok", test, f" # SKIP {reason}")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.failed_part = True
            self.explain(err)
            print(f"# in {subtest.id()}")


def main(module):
    result = Tap()
    unittest.defaultTestLoader.loadTestsFromName(module).run(result)
    print(f"1..{result.count}")
    return 0 if result.wasSuccessful() and result.count else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
