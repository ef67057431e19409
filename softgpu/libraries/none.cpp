// SPDX-License-Identifier: Apache-2.0
// For builds that have neither cuBLAS nor cuDNN: a library of objects needs a source.
