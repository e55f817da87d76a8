import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import type { AppliedAdapter, BackendAdapters, LoadedAdapter, BatchItem, SlotId } from '@cllm/core'
import { CllmError, hashTokens } from '@cllm/core'
import type { FakeSlot } from './fake-slot.js'

/** An adapter of `FakeBackend`: its file need not exist. */
export class FakeAdapter implements LoadedAdapter {
  /** Whether its memory was given back. */
  isDisposed = false

  /**
   * @param key - its file
   * @param onDispose - throws where it must not be given back
   */
  constructor(
    readonly key: string,
    private readonly onDispose: () => void,
  ) {}

  dispose(): void {
    this.onDispose()
    this.isDisposed = true
  }
}

/** The adapters of `FakeBackend`: any file whose name ends with `.gguf` is one. */
export class FakeAdapters implements BackendAdapters {
  /** All that were loaded, disposed ones too. */
  readonly loaded: FakeAdapter[] = []
  /** Whether one is being read. */
  isLoading = false

  /** @param check - throws where the call of this name must not be made */
  constructor(private readonly check: (call: string) => void) {}

  async load(path: string): Promise<FakeAdapter> {
    this.check('adapters.load')
    this.isLoading = true
    await turnOfTheEventLoop()
    this.isLoading = false
    if (!path.endsWith('.gguf')) {
      throw new CllmError('model_invalid', `${path}: expected an adapter, this is none`)
    }
    const adapter = new FakeAdapter(path, () => this.check('adapter.dispose'))
    this.loaded.push(adapter)
    return adapter
  }
}

/** What the adapters add to the hash of all tokens; 0: there are none. */
export function saltOf(applied: readonly AppliedAdapter[] = []): number {
  if (applied.length === 0) return 0
  const parts = applied.map(({ adapter, scale }) => `${adapter.key}*${scale}`).toSorted()
  return hashTokens(1, [...new TextEncoder().encode(parts.join())]) || 1
}

/** What is wrong with the adapters of a step. */
export function adapterProblem(
  batch: readonly BatchItem[],
  slotOf: (slot: SlotId) => FakeSlot,
): string | undefined {
  const [salt = 0, ...others] = new Set(batch.map(({ adapters }) => saltOf(adapters)))
  if (others.length > 0) return 'its items have different adapters'
  for (const { adapter } of batch[0]?.adapters ?? []) {
    if (adapter instanceof FakeAdapter && !adapter.isDisposed) continue
    return 'an adapter is not of this backend, or disposed'
  }
  const mixed = batch.find(({ slot }) => {
    const held = slotOf(slot)
    return held.tokens.length > 0 && held.salt !== salt
  })
  return mixed === undefined ? undefined : `slot ${mixed.slot} was computed with other adapters`
}
