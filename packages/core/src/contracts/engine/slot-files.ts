import type { SlotId } from '../model/backend.js'
import type { StateHead } from './state-files.js'

/** What is done with a slot: its content is written to a file, read from one, or dropped. */
export type SlotAction =
  | { readonly action: 'save' | 'restore'; readonly filename: string }
  | { readonly action: 'erase' }

/** What came of a {@link SlotAction}. */
export interface SlotActionResult {
  readonly slot: SlotId
  /** Tokens that were saved, restored or erased. */
  readonly tokens: number
  /** Bytes of the file; 0 when a slot was erased. */
  readonly bytes: number
  readonly ms: number
}

/** Files of slots, by the names that clients give them. */
export interface SlotFiles {
  /** Writes a file whole or not at all, and returns its bytes. Throws `invalid_request`. */
  write(filename: string, head: StateHead, data: Uint8Array): Promise<number>
  /**
   * Reads one. Throws `invalid_request` where it is none of these files, or damaged.
   *
   * @param check - called before the state is read, which may be large; what it throws is thrown
   */
  read(
    filename: string,
    check: (head: StateHead) => void,
  ): Promise<{ readonly head: StateHead; readonly data: Uint8Array; readonly bytes: number }>
}
