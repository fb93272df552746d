//! Rules of the protocol that are left out, one by one: a scenario notices each.
