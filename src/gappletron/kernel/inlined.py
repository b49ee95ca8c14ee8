"""Functions that are only inlined into others: they are neither optimised nor turned into machine code on their own.

Numba makes machine code of every function, also of one that only other compiled functions call, and optimises it
each time that it is linked into a caller. All of ours are inlined, so that work is thrown away: without it compiling a
loop takes about 0.6 of the time, and the loop is as fast.

Both compilers here are Numba's own but for the last steps (its documentation calls this customizing the compiler).

For every index Numba asks whether it is negative, and counts it from the end then: an eighth of the time of a round.
Our own functions never count from the end, and are compiled without the question. Pieces from outside keep it.
"""

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from numba import _dynfunc
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.environment import lookup_environment
from numba.core.typed_passes import NativeLowering
from numba.np import arrayobj, linalg

# To see whether SciPy is there, Numba loads its linear algebra, for a tenth of a second. It is: we need it too.
_look_for_scipy, linalg.ensure_blas = linalg.ensure_blas, lambda: None
importlib.import_module("numba.np.arraymath")
linalg.ensure_blas = _look_for_scipy

# The beginning of the name of a global variable that holds a function's Python objects, such as texts to print.
ENVIRONMENT = "_ZN08NumbaEnv"


class InlinedLibrary(JITCodeLibrary):
    """Code to be linked into that of callers, which is optimised as a whole."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


def take_as_given(context: Any, builder: Any, kind: Any, index: Any, _size: Any) -> Any:
    """Stands for the function of Numba that asks whether an index is negative."""
    return context.cast(builder, index, kind, types.intp)


@contextlib.contextmanager
def indices_as_given(module: str) -> Iterator[None]:
    """Lower functions of a module of ours without the question. Numba lowers one function at a time."""
    kept = arrayobj.fix_integer_index
    if module.split(".", maxsplit=1)[0] == "gappletron":
        arrayobj.fix_integer_index = take_as_given
    try:
        yield
    finally:
        arrayobj.fix_integer_index = kept


@register_pass(mutates_CFG=True, analysis_only=False)
class InlinedLowering(NativeLowering):
    """Makes the function known to callers, without an address."""

    _name = "gappletron_inlined_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower to LLVM."""
        state.library = InlinedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags = state.flags.copy()
        state.flags.no_compile = True
        with indices_as_given(state.func_id.modname):
            super().run_pass(state)
        lowered, name = state["cr"], state.func_id.func_name
        key = _dynfunc.make_function(lowered.fndesc.lookup_module(), name, "", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        state["cr"] = _LowerResult(lowered.fndesc, lowered.call_helper, cfunc=key, env=lowered.env)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class EntryLowering(NativeLowering):
    """Gives the functions that were inlined their Python objects."""

    _name = "gappletron_entry_lowering"

    def run_pass(self, state: Any) -> bool:
        """Lower to LLVM, compile to machine code."""
        with indices_as_given(state.func_id.modname):
            super().run_pass(state)
        codegen = state.targetctx.codegen()
        for variable in state.library._final_module.global_variables:
            environment = lookup_environment(variable.name) if variable.name.startswith(ENVIRONMENT) else None
            if environment is not None and codegen._engine.get_global_value_address(variable.name):
                codegen.set_env(variable.name, environment)
        return True


class InlinedCompiler(CompilerBase):
    """For functions that only compiled code calls: Numba's passes, with another one for lowering."""

    lowering: type[NativeLowering] = InlinedLowering

    def define_pipelines(self) -> list[PassManager]:
        """Numba asks for them."""
        manager, build = PassManager("gappletron"), DefaultPassBuilder
        parts = (build.define_untyped_pipeline, build.define_typed_pipeline, build.define_nopython_lowering_pipeline)
        for step, about in (step for part in parts for step in part(self.state).passes):
            manager.add_pass(self.lowering if step is NativeLowering else step, about)
        manager.finalize()
        return [manager]


class EntryCompiler(InlinedCompiler):
    """For functions that Python calls, and that call the others."""

    lowering = EntryLowering


OPTIONS = {"error_model": "numpy", "_nrt": False, "forceinline": True}
# Numba's options for functions that only compiled code calls.
INNER = {**OPTIONS, "no_cfunc_wrapper": True, "pipeline_class": InlinedCompiler}
