#!/bin/sh
# Launcher of the compiler for precompiled headers: removes the header that the compilation replaces.
# Otherwise ccache counts the old one among the inputs, and never finds what it compiled before.
case " $* " in
  *" c++-header "*)
    previous=
    for argument; do
      [ "$previous" != -o ] || rm -f "$argument"
      previous=$argument
    done ;;
esac
exec "$@"
