import type { CacheOrigin, WaitReason } from './contracts/engine/request-report.js'

/** Why a request waits, in words. */
export const waitWords: Readonly<Record<WaitReason, string>> = {
  step: 'the running step had to end',
  slots: 'all slots were taken',
  cells: 'the KV cells of all slots were taken',
  budget: 'the prompts of others filled the steps',
  policy: 'the policy admitted nobody',
  order: 'a later request went first',
  deadline: 'a later request was due sooner',
  turn: 'other models had the memory',
  load: 'its model was being loaded',
  encoder: 'images and sounds of others were encoded first',
  encode: 'its images and sounds were encoded',
  prefix: 'another request computed the prefix that both have',
}

/** How cached tokens came into a slot, in words. */
export const originWords: Readonly<Record<Exclude<CacheOrigin['from'], 'none'>, string>> = {
  slot: 'in the slot already',
  copy: 'copied from another slot',
  ram: 'restored from RAM',
  disk: 'restored from disk',
  checkpoint: 'of a slot cut back to a checkpoint',
}

/** Why there were none, in words. */
export const missWords: Readonly<Record<NonNullable<CacheOrigin['why']>, string>> = {
  off: 'it may use no cache',
  unknown: 'no other prompt began like it',
  cannot_be_cut: 'no slot can be cut where they part',
  computing_is_faster: 'computing them is faster',
  failed: 'they could not be restored',
}
