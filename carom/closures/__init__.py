"""What a function captures, seen by value: its code, and the globals, cells, defaults and attributes that the code reads.

A compiled program holds the numbers that its functions captured when it was traced. So a function is *frozen* before it is used:

    key = read(function)         everything that decides what it computes, as one tuple that can be compared
    frozen = freeze(function)    a private copy of the function and of what it captures; the same object for the same key

Change a captured number and the key is another one, so nothing stale is ever found; write the same lambda again with the same
numbers and the key is the same, so nothing is compiled again. And what was computed stays explained: the energy of a run is that
of its own numbers, whatever has been assigned since.

What is seen by value: numbers, texts, arrays, containers, functions, partials, methods, objects by their attributes, classes and
modules of one's own by what is read of them. Installed packages are taken to be constant. What hides its state (objects of C
extensions, a generator of random numbers) is compared by identity, and so is a container that the function itself appends to.
What is too much or too deep to be read, and keys that are found by what they are, is left as it is and told apart by tracing.
A class of one's own cannot be copied: its attributes are compared again whenever the function is used (`Frozen.unchanged`).
"""

from carom.closures.frozen_function import Frozen as Frozen
from carom.closures.frozen_function import freeze as freeze
