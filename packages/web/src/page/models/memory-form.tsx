import { useState } from 'preact/hooks'
import { formatBytes } from '../parts/format.js'
import { Field, Form, useTelling } from '../parts/form.js'
import { useServer } from '../server/server.js'

interface Memory {
  readonly weights_bytes: number
  readonly total_bytes: number
  readonly available_bytes: number
}

/** How much memory a model takes with this many slots of this many tokens, before it is loaded. */
export function MemoryForm({ models }: { readonly models: readonly string[] }) {
  const server = useServer()
  const [name, setName] = useState('')
  const [contextSize, setContextSize] = useState('4096')
  const [slots, setSlots] = useState('4')
  const { told, attempt } = useTelling()

  const ask = async (): Promise<string> => {
    const query = new URLSearchParams({ model: name, slots, ctx_size: contextSize })
    const path = `models/memory?${query}`
    const { data } = await server.json<{ readonly data: Memory }>(path)
    const { weights_bytes: weights, total_bytes: total, available_bytes: free } = data
    const parts = `${formatBytes(total)}, of which ${formatBytes(weights)} are weights`
    return `${parts}; ${formatBytes(free)} are free: it ${total <= free ? 'fits' : 'does not fit'}.`
  }

  return (
    <Form class="card" onSend={() => attempt(ask)}>
      <h2>Memory before loading</h2>
      <div class="fields">
        <Field
          label="Model, of this server or of the catalog"
          list="memory-models"
          value={name}
          onText={setName}
        />
        <datalist id="memory-models">
          {models.map((model) => (
            <option key={model} value={model} />
          ))}
        </datalist>
        <Field
          label="Tokens per slot"
          inputMode="numeric"
          value={contextSize}
          onText={setContextSize}
        />
        <Field label="Slots" inputMode="numeric" value={slots} onText={setSlots} />
      </div>
      <div class="buttons">
        <button type="submit" disabled={name.trim() === ''}>
          Compute
        </button>
      </div>
      <p role="status">{told}</p>
    </Form>
  )
}
