;; The passes of VocabularyScan, four entries at a time. All addresses are multiples of 16; a block is
;; 64 entries of 4 bytes. simd-module.ts is made of this file: node assemble-scan.mjs.
(module
  (memory (import "scan" "memory") 1)
  (global $blocks (import "scan" "blocks") i32)
  (global $logits (import "scan" "logits") i32)
  (global $maxima (import "scan" "maxima") i32)
  (global $ids (import "scan" "ids") i32)
  (global $listed (import "scan" "listed") i32)
  (global $packs (import "scan" "packs") i32)
  (global $weights (import "scan" "weights") i32)
  (global $sums (import "scan" "sums") i32)

  ;; The largest entry of each block, and of all. A comparison with NaN is false: it is passed over.
  (func (export "findLargest")
    (result f32)
    (local $logits i32) (local $maxima i32) (local $end i32) (local $blockEnd i32)
    (local $a v128) (local $b v128) (local $most f32) (local $largest f32)
    (local.set $logits (global.get $logits))
    (local.set $maxima (global.get $maxima))
    (local.set $largest (f32.const -inf))
    (local.set $end (i32.add (local.get $maxima) (i32.shl (global.get $blocks) (i32.const 2))))
    (loop $block
      (local.set $a (v128.const f32x4 -inf -inf -inf -inf))
      (local.set $b (local.get $a))
      (local.set $blockEnd (i32.add (local.get $logits) (i32.const 256)))
      (loop $entries
        (local.set $a (f32x4.pmax (local.get $a) (v128.load (local.get $logits))))
        (local.set $b (f32x4.pmax (local.get $b) (v128.load offset=16 (local.get $logits))))
        (local.set $a (f32x4.pmax (local.get $a) (v128.load offset=32 (local.get $logits))))
        (local.set $b (f32x4.pmax (local.get $b) (v128.load offset=48 (local.get $logits))))
        (local.set $logits (i32.add (local.get $logits) (i32.const 64)))
        (br_if $entries (i32.lt_u (local.get $logits) (local.get $blockEnd))))
      (local.set $a (f32x4.pmax (local.get $a) (local.get $b)))
      (local.set $most
        (f32.max
          (f32.max (f32x4.extract_lane 0 (local.get $a)) (f32x4.extract_lane 1 (local.get $a)))
          (f32.max (f32x4.extract_lane 2 (local.get $a)) (f32x4.extract_lane 3 (local.get $a)))))
      (f32.store (local.get $maxima) (local.get $most))
      (local.set $largest (f32.max (local.get $largest) (local.get $most)))
      (local.set $maxima (i32.add (local.get $maxima) (i32.const 4)))
      (br_if $block (i32.lt_u (local.get $maxima) (local.get $end))))
    (local.get $largest))

  ;; Lists the entries that are at least $from, in their order. The number of them. $packs has, for each
  ;; set of four, the bytes that move its members to the front.
  (func (export "collect")
    (param $from f32) (result i32)
    (local $logits i32) (local $maxima i32) (local $ids i32) (local $listed i32)
    (local $end i32) (local $blockEnd i32) (local $set i32) (local $step i32)
    (local $least v128) (local $entries v128) (local $numbers v128) (local $four v128)
    (local $pack v128)
    (local.set $logits (global.get $logits))
    (local.set $maxima (global.get $maxima))
    (local.set $ids (global.get $ids))
    (local.set $listed (global.get $listed))
    (local.set $least (f32x4.splat (local.get $from)))
    (local.set $numbers (v128.const i32x4 0 1 2 3))
    (local.set $four (i32x4.splat (i32.const 4)))
    (local.set $end (i32.add (local.get $maxima) (i32.shl (global.get $blocks) (i32.const 2))))
    (loop $block
      (local.set $blockEnd (i32.add (local.get $logits) (i32.const 256)))
      (if (f32.ge (f32.load (local.get $maxima)) (local.get $from))
        (then
          (loop $next
            (local.set $entries (v128.load (local.get $logits)))
            (local.set $set (i32x4.bitmask (f32x4.ge (local.get $entries) (local.get $least))))
            (local.set $pack
              (v128.load
                (i32.add (global.get $packs) (i32.shl (local.get $set) (i32.const 4)))))
            (v128.store (local.get $listed)
              (i8x16.swizzle (local.get $entries) (local.get $pack)))
            (v128.store (local.get $ids) (i8x16.swizzle (local.get $numbers) (local.get $pack)))
            (local.set $step (i32.shl (i32.popcnt (local.get $set)) (i32.const 2)))
            (local.set $listed (i32.add (local.get $listed) (local.get $step)))
            (local.set $ids (i32.add (local.get $ids) (local.get $step)))
            (local.set $numbers (i32x4.add (local.get $numbers) (local.get $four)))
            (local.set $logits (i32.add (local.get $logits) (i32.const 16)))
            (br_if $next (i32.lt_u (local.get $logits) (local.get $blockEnd)))))
        (else
          (local.set $numbers (i32x4.add (local.get $numbers) (i32x4.splat (i32.const 64))))
          (local.set $logits (local.get $blockEnd))))
      (local.set $maxima (i32.add (local.get $maxima) (i32.const 4)))
      (br_if $block (i32.lt_u (local.get $maxima) (local.get $end))))
    (i32.shr_u (i32.sub (local.get $ids) (global.get $ids)) (i32.const 2)))

  ;; Writes exp(entry / $temperature - $shift) for the blocks that have an entry which is at least
  ;; $from, and the sum of each block; that of other blocks is 0. The sum of all. The exponent is at
  ;; most 0, and what is below -86 or NaN counts as -86. As in cephes' expf (S. Moshier):
  ;; e^x = 2^k e^r with |r| <= ln 2 / 2, ln 2 in two parts so that k times the first is exact. The
  ;; polynomial is off by 3e-9, a weight by 8e-8 at most, which is rounding.
  (func (export "weigh")
    (param $logits i32) (param $blocks i32)
    (param $from f32) (param $temperature f32) (param $shift f32) (result f64)
    (local $maxima i32) (local $sums i32) (local $weights i32)
    (local $end i32) (local $blockEnd i32) (local $blockSum f64) (local $total f64)
    (local $x v128) (local $k v128) (local $bits v128) (local $r v128) (local $sum v128)
    (local $t v128) (local $s v128) (local $lowest v128) (local $round v128) (local $perLn2 v128)
    (local $ln2High v128) (local $ln2Low v128) (local $one v128)
    (local $c2 v128) (local $c3 v128) (local $c4 v128) (local $c5 v128) (local $c6 v128)
    (local.set $maxima (global.get $maxima))
    (local.set $sums (global.get $sums))
    (local.set $weights (global.get $weights))
    (local.set $t (f32x4.splat (local.get $temperature)))
    (local.set $s (f32x4.splat (local.get $shift)))
    (local.set $lowest (f32x4.splat (f32.const -86)))
    (local.set $round (f32x4.splat (f32.const 12582912)))
    (local.set $perLn2 (f32x4.splat (f32.const 1.44269504)))
    (local.set $ln2High (f32x4.splat (f32.const 0.693359375)))
    (local.set $ln2Low (f32x4.splat (f32.const -2.12194440e-4)))
    (local.set $one (f32x4.splat (f32.const 1)))
    (local.set $c2 (f32x4.splat (f32.const 0.4999999403953552)))
    (local.set $c3 (f32x4.splat (f32.const 0.1666652113199234)))
    (local.set $c4 (f32x4.splat (f32.const 0.04166839271783829)))
    (local.set $c5 (f32x4.splat (f32.const 0.00836874544620514)))
    (local.set $c6 (f32x4.splat (f32.const 0.0013814510311931372)))
    (local.set $end (i32.add (local.get $maxima) (i32.shl (local.get $blocks) (i32.const 2))))
    (loop $block
      (local.set $blockEnd (i32.add (local.get $logits) (i32.const 256)))
      (local.set $blockSum (f64.const 0))
      (if (f32.ge (f32.load (local.get $maxima)) (local.get $from))
        (then
          (local.set $sum (v128.const f64x2 0 0))
          (loop $entries
            (local.set $x
              (f32x4.pmax (local.get $lowest)
                (f32x4.sub (f32x4.div (v128.load (local.get $logits)) (local.get $t)) (local.get $s))))
            ;; so large that the sum is rounded to a whole number, which its lowest bits are
            (local.set $bits (f32x4.add (f32x4.mul (local.get $x) (local.get $perLn2)) (local.get $round)))
            (local.set $k (f32x4.sub (local.get $bits) (local.get $round)))
            (local.set $r
              (f32x4.sub
                (f32x4.sub (local.get $x) (f32x4.mul (local.get $k) (local.get $ln2High)))
                (f32x4.mul (local.get $k) (local.get $ln2Low))))
            (local.set $x (f32x4.add (f32x4.mul (local.get $r) (local.get $c6)) (local.get $c5)))
            (local.set $x (f32x4.add (f32x4.mul (local.get $x) (local.get $r)) (local.get $c4)))
            (local.set $x (f32x4.add (f32x4.mul (local.get $x) (local.get $r)) (local.get $c3)))
            (local.set $x (f32x4.add (f32x4.mul (local.get $x) (local.get $r)) (local.get $c2)))
            (local.set $x
              (f32x4.add
                (f32x4.add
                  (f32x4.mul (local.get $x) (f32x4.mul (local.get $r) (local.get $r))) (local.get $r))
                (local.get $one)))
            (local.set $x
              (i32x4.add (local.get $x) (i32x4.shl (local.get $bits) (i32.const 23))))
            (v128.store (local.get $weights) (local.get $x))
            (local.set $sum
              (f64x2.add (local.get $sum)
                (f64x2.add
                  (f64x2.promote_low_f32x4 (local.get $x))
                  (f64x2.promote_low_f32x4
                    (i8x16.shuffle 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 (local.get $x) (local.get $x))))))
            (local.set $logits (i32.add (local.get $logits) (i32.const 16)))
            (local.set $weights (i32.add (local.get $weights) (i32.const 16)))
            (br_if $entries (i32.lt_u (local.get $logits) (local.get $blockEnd))))
          (local.set $blockSum
            (f64.add (f64x2.extract_lane 0 (local.get $sum)) (f64x2.extract_lane 1 (local.get $sum)))))
        (else
          (local.set $logits (local.get $blockEnd))
          (local.set $weights (i32.add (local.get $weights) (i32.const 256)))))
      (f64.store (local.get $sums) (local.get $blockSum))
      (local.set $total (f64.add (local.get $total) (local.get $blockSum)))
      (local.set $sums (i32.add (local.get $sums) (i32.const 8)))
      (local.set $maxima (i32.add (local.get $maxima) (i32.const 4)))
      (br_if $block (i32.lt_u (local.get $maxima) (local.get $end))))
    (local.get $total))

  ;; How many of the entries are at least $from. Their number is a multiple of 4.
  (func (export "count")
    (param $entries i32) (param $number i32) (param $from f32) (result i32)
    (local $end i32) (local $least v128) (local $counts v128)
    (local.set $least (f32x4.splat (local.get $from)))
    (local.set $end (i32.add (local.get $entries) (i32.shl (local.get $number) (i32.const 2))))
    (loop $next
      ;; a comparison that holds is -1
      (local.set $counts
        (i32x4.sub (local.get $counts)
          (f32x4.ge (v128.load (local.get $entries)) (local.get $least))))
      (local.set $entries (i32.add (local.get $entries) (i32.const 16)))
      (br_if $next (i32.lt_u (local.get $entries) (local.get $end))))
    (i32.add
      (i32.add (i32x4.extract_lane 0 (local.get $counts)) (i32x4.extract_lane 1 (local.get $counts)))
      (i32.add (i32x4.extract_lane 2 (local.get $counts)) (i32x4.extract_lane 3 (local.get $counts)))))

  ;; The sum of all weights in single precision, one after the other. A block whose sum is below 2^-25 of it
  ;; is passed over: none of its weights reaches half of what the sum's last bit stands for.
  (func (export "addSingly")
    (result f32)
    (local $weights i32) (local $sums i32) (local $end i32) (local $blockEnd i32) (local $sum f32)
    (local.set $weights (global.get $weights))
    (local.set $sums (global.get $sums))
    (local.set $end (i32.add (local.get $sums) (i32.shl (global.get $blocks) (i32.const 3))))
    (loop $block
      (local.set $blockEnd (i32.add (local.get $weights) (i32.const 256)))
      (if (f64.ge (f64.load (local.get $sums))
          (f64.mul (f64.promote_f32 (local.get $sum)) (f64.const 2.9802322387695312e-8)))
        (then
          (loop $next
            (local.set $sum (f32.add (local.get $sum) (f32.load (local.get $weights))))
            (local.set $sum (f32.add (local.get $sum) (f32.load offset=4 (local.get $weights))))
            (local.set $sum (f32.add (local.get $sum) (f32.load offset=8 (local.get $weights))))
            (local.set $sum (f32.add (local.get $sum) (f32.load offset=12 (local.get $weights))))
            (local.set $weights (i32.add (local.get $weights) (i32.const 16)))
            (br_if $next (i32.lt_u (local.get $weights) (local.get $blockEnd))))))
      (local.set $weights (local.get $blockEnd))
      (local.set $sums (i32.add (local.get $sums) (i32.const 8)))
      (br_if $block (i32.lt_u (local.get $sums) (local.get $end))))
    (local.get $sum))
)
