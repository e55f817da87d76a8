import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { formatBytes } from '../parts/format.js'
import { TextField } from '../parts/text-field.js'
import { useServer } from '../server/server-context.js'

interface Memory {
  readonly weights_bytes: number
  readonly total_bytes: number
  readonly available_bytes: number
}

/** How much memory a model takes with this many slots of this many tokens, before it is loaded. */
export function MemoryForm({ models }: { readonly models: readonly string[] }): JSX.Element {
  const server = useServer()
  const [name, setName] = useState('')
  const [contextSize, setContextSize] = useState('4096')
  const [slots, setSlots] = useState('4')
  const [answer, setAnswer] = useState<{ readonly memory?: Memory; readonly problem?: string }>({})

  const ask = async (): Promise<void> => {
    const query = new URLSearchParams({ model: name, slots, ctx_size: contextSize })
    try {
      const path = `models/memory?${query}`
      const { data } = await server.json<{ readonly data: Memory }>(path)
      setAnswer({ memory: data })
    } catch (error) {
      setAnswer({ problem: (error as Error).message })
    }
  }

  const { memory, problem } = answer
  return (
    <form
      class="card narrow"
      onSubmit={(event) => {
        event.preventDefault()
        void ask()
      }}
    >
      <h2>Memory before loading</h2>
      <label>
        Model, of this server or of the catalog
        <input
          list="memory-models"
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <datalist id="memory-models">
        {models.map((model) => (
          <option key={model} value={model} />
        ))}
      </datalist>
      <TextField
        label="Tokens per slot"
        inputMode="numeric"
        value={contextSize}
        onText={setContextSize}
      />
      <TextField label="Slots" inputMode="numeric" value={slots} onText={setSlots} />
      <div class="buttons">
        <button type="submit" disabled={name.trim() === ''}>
          Compute
        </button>
      </div>
      <p role="status">
        {memory !== undefined && describe(memory)}
        {problem !== undefined && <span class="problem">{problem}</span>}
      </p>
    </form>
  )
}

function describe({ weights_bytes: weights, total_bytes: total, available_bytes: free }: Memory) {
  const parts = `${formatBytes(total)}, of which ${formatBytes(weights)} are weights`
  return `${parts}; ${formatBytes(free)} are free: it ${total <= free ? 'fits' : 'does not fit'}.`
}
