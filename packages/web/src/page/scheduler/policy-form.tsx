import type { SchedulerInfo } from '@cllm/core'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { useServer } from '../server/server-context.js'

interface Answer {
  readonly data: Pick<SchedulerInfo, 'policy' | 'options' | 'available'>
}

/** Shows the policy in force, and sets another one. */
export function PolicyForm({
  model,
  inForce,
}: {
  readonly model: string
  /** Its name as the live view has it, which somebody else may have changed. */
  readonly inForce: string
}): JSX.Element {
  const server = useServer()
  const [known, setKnown] = useState<Answer['data']>()
  const [chosen, setChosen] = useState<string>()
  const [options, setOptions] = useState('')
  const [told, setTold] = useState('')
  const path = `admin/scheduler${model === '' ? '' : `?model=${encodeURIComponent(model)}`}`
  const take = ({ data }: Answer): void => {
    setKnown(data)
    setChosen(data.policy)
    setOptions(JSON.stringify(data.options))
  }
  useEffect(() => {
    void server
      .json<Answer>(path)
      .then(take)
      .catch((error: Error) => setTold(error.message))
  }, [server, path, inForce])
  const set = async (): Promise<void> => {
    try {
      const body = { policy: chosen, options: JSON.parse(options || '{}') as unknown }
      take(await server.json<Answer>(path, { method: 'PUT', body }))
      setTold(`${chosen} is in force from the next step on.`)
    } catch (error) {
      setTold((error as Error).message)
    }
  }
  return (
    <form
      class="card"
      onSubmit={(event) => {
        event.preventDefault()
        void set()
      }}
    >
      <h2>Policy</h2>
      <p>
        In force: <code>{inForce}</code>
      </p>
      <label>
        Another one
        <select
          value={chosen}
          onChange={({ currentTarget: { value } }) => {
            setChosen(value)
            const { options = {} } = known?.available.find(({ name }) => name === value) ?? {}
            setOptions(JSON.stringify(options))
          }}
        >
          {known?.available.map(({ name }) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label>
        Its options, as JSON
        <textarea
          rows={2}
          spellcheck={false}
          value={options}
          onInput={(event) => setOptions(event.currentTarget.value)}
        />
      </label>
      <div class="buttons">
        <button type="submit">Set the policy</button>
      </div>
      <p role="status">{told}</p>
    </form>
  )
}
