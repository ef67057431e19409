// SPDX-License-Identifier: Apache-2.0
// For builds that have none of these libraries: a library of objects needs a source.
