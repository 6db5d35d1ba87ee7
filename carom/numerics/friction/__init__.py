"""Contact problems with Coulomb's law in space and in the plane, solved to a certificate. No pyramid, no softening.

    u = W r + q,      r ∈ K_μ,      u + μ|u_T| e_N ∈ K_μ*,      orthogonal, contact by contact                           (2)

- `problem`: (2) and the certificate E(r), with W given or made of bodies.
- `cones`: the Lorentz cone and its scalings, in arrays.
- `scaled`: the problem without μ, and the sparse linear systems of Newton's method; `in_bodies`: those of many bodies, in blocks.
- `interior`, `polish`, `gradient`: the three stages.
- `together`: large problems, all islands at once; `compiled`: the same of bodies, in blocks, by loops that numba compiles.
- `on_device`: those with very many contacts, in compiled programs for a GPU (`device_arrays`; the polish is `device_proximal`).
- `stages`: `solve_friction`, which splits a problem into islands and takes them through the stages.

The equations are numbered through the package; `docs/theory/friction.md` derives them. Nothing is imported here: `small`, which
every impact needs, does without the sparse matrices that the others load.
"""
