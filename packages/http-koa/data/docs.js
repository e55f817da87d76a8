'use strict'

// Sends the forms of the page at /docs and shows the answers as they come.
const send = async (form, signal, status, text) => {
  const headers = {}
  let path = form.dataset.path
  const query = new URLSearchParams()
  for (const { name, value, dataset } of form.querySelectorAll('input')) {
    if (dataset.in === 'path')
      path = path.replace('{' + name + '}', () => encodeURIComponent(value))
    else if (dataset.in === 'query' && value !== '') query.set(name, value)
  }
  const key = document.getElementById('key').value.trim()
  if (key !== '') headers.Authorization = 'Bearer ' + key
  const json = form.querySelector('textarea')?.value.trim() || undefined
  if (json !== undefined) headers['Content-Type'] = 'application/json'
  const body = form.enctype === 'multipart/form-data' ? new FormData(form) : json
  // Relative, so that it is the same server behind a proxy's prefix.
  const address = '.' + path + (String(query) && '?' + query)
  const answer = await fetch(address, { method: form.dataset.method, headers, body, signal })
  status.textContent = answer.status + ' ' + answer.statusText
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader()
  for (let part = await reader?.read(); part && !part.done; part = await reader.read()) {
    text.append(part.value)
  }
}
const submit = async (event) => {
  const form = event.target
  const [button, status, text] = form.querySelectorAll('button, output, pre')
  if (button.stop) return button.stop.abort()
  const { signal } = (button.stop = new AbortController())
  button.textContent = 'Stop'
  status.textContent = 'sent'
  text.textContent = ''
  await send(form, signal, status, text).catch((error) => {
    status.textContent = signal.aborted ? 'stopped' : String(error)
  })
  button.stop = undefined
  button.textContent = 'Send'
}
document.addEventListener('submit', (event) => {
  event.preventDefault()
  void submit(event)
})
