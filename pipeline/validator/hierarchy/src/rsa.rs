//! RSA signatures (RFC 8017 section 8.2.1) with keys of any size and any hash: ring signs with neither SHA-1 nor short keys.
//! For tests: it takes no care of what its running time tells.

/// A key that signs.
pub(crate) struct PrivateKey {
    /// Least significant limb first, as the exponent.
    modulus: Vec<u64>,
    exponent: Vec<u64>,
    /// -modulus^-1 modulo 2^64.
    inverse: u64,
    /// R^2 modulo the modulus, where R is 2^64 to the number of limbs.
    square: Vec<u64>,
}

impl PrivateKey {
    /// A key of numbers whose most significant byte comes first.
    pub(crate) fn new(modulus: &[u8], exponent: &[u8]) -> Self {
        let (modulus, exponent) = (limbs(modulus), limbs(exponent));
        let mut inverse = 1_u64;
        for _ in 0..6 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(modulus[0].wrapping_mul(inverse)));
        }
        let mut square = vec![0; modulus.len()];
        square[0] = 1;
        for _ in 0..128 * modulus.len() {
            double(&mut square, &modulus);
        }
        Self { inverse: inverse.wrapping_neg(), modulus, exponent, square }
    }

    /// The signature of `digest`, which `prefix` says the kind of.
    pub(crate) fn sign(&self, prefix: &[u8], digest: &[u8]) -> Vec<u8> {
        let len = 8 * self.modulus.len();
        let padding = len - 3 - prefix.len() - digest.len();
        let padded = [&[0, 1], &*vec![0xff; padding], &[0], prefix, digest].concat();
        let base = self.multiply(&limbs(&padded), &self.square);
        let mut one = vec![0; self.modulus.len()];
        one[0] = 1;
        let mut power = self.multiply(&one, &self.square);
        for limb in self.exponent.iter().rev() {
            for bit in (0..64).rev() {
                power = self.multiply(&power, &power);
                if limb >> bit & 1 == 1 {
                    power = self.multiply(&power, &base);
                }
            }
        }
        let power = self.multiply(&power, &one);
        power.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect()
    }

    /// Montgomery's product.
    fn multiply(&self, a: &[u64], b: &[u64]) -> Vec<u64> {
        let len = self.modulus.len();
        let mut sum = vec![0_u64; len + 2];
        for &limb in a {
            add_product(&mut sum, limb, b);
            let factor = sum[0].wrapping_mul(self.inverse);
            add_product(&mut sum, factor, &self.modulus);
            sum.rotate_left(1);
            sum[len + 1] = 0;
        }
        let over = sum[len] > 0;
        sum.truncate(len);
        if over || !is_less(&sum, &self.modulus) {
            subtract(&mut sum, &self.modulus);
        }
        sum
    }
}

fn limbs(bytes: &[u8]) -> Vec<u64> {
    let chunks = bytes.rchunks(8);
    chunks.map(|chunk| chunk.iter().fold(0, |limb, byte| limb << 8 | u64::from(*byte))).collect()
}

/// Adds `factor` times `number` to `sum`, which is two limbs longer.
fn add_product(sum: &mut [u64], factor: u64, number: &[u64]) {
    let mut carry = 0_u128;
    for (place, limb) in sum.iter_mut().enumerate() {
        let product = number.get(place).map_or(0, |by| u128::from(factor) * u128::from(*by));
        carry += u128::from(*limb) + product;
        *limb = carry as u64;
        carry >>= 64;
    }
}

fn is_less(a: &[u64], b: &[u64]) -> bool {
    a.iter().rev().lt(b.iter().rev())
}

fn subtract(from: &mut [u64], number: &[u64]) {
    let mut borrow = false;
    for (limb, by) in from.iter_mut().zip(number) {
        let (less, first) = limb.overflowing_sub(*by);
        let (less, second) = less.overflowing_sub(u64::from(borrow));
        (*limb, borrow) = (less, first || second);
    }
}

fn double(number: &mut [u64], modulus: &[u64]) {
    let mut carry = 0;
    for limb in number.iter_mut() {
        (*limb, carry) = (*limb << 1 | carry, *limb >> 63);
    }
    if carry > 0 || !is_less(number, modulus) {
        subtract(number, modulus);
    }
}
