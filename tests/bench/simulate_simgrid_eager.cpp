// Draws of a skewed, eager ring of 8 ranks in SimGrid's S4U, one after the other in one engine (Debian: libsimgrid-dev).
//   g++ -O2 -o eager tests/bench/simulate_simgrid_eager.cpp -lsimgrid
//   ./eager SIZE_BYTES STARTS DRAWS early|late SWITCHES
// STARTS has a line per draw of each rank's start [us]; SWITCHES are SIMGRID of simulate_speed.py. Prints the time of
// each draw [us]. A mailbox is eager once its receiver has declared it: `early` at time 0, `late` when the rank first
// begins, before which messages to it wait as under rendezvous. That changes the first draw alone.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace s4u = simgrid::s4u;

constexpr int ranks       = 8;
constexpr double spacing_s = 1; // far more than a draw takes
static std::vector<s4u::Mailbox*> boxes;
static std::vector<std::vector<double>> starts_us;
static std::vector<double> took_s;

static void rank(int own, double chunk, bool early)
{
  static int payload = 0;
  void* got          = nullptr;
  if (early)
    boxes[own]->set_receiver(s4u::Actor::self());
  for (size_t draw = 0; draw < starts_us.size(); ++draw) {
    s4u::this_actor::sleep_until(draw * spacing_s + starts_us[draw][own] * 1e-6);
    if (!early && draw == 0)
      boxes[own]->set_receiver(s4u::Actor::self());
    std::vector<s4u::CommPtr> sent;
    for (int step = 0; step < 2 * (ranks - 1); ++step) {
      sent.push_back(boxes[(own + 1) % ranks]->put_async(&payload, static_cast<uint64_t>(chunk)));
      boxes[own]->get_async(&got)->wait();
    }
    for (auto& message : sent)
      message->wait();
    took_s[draw] = std::max(took_s[draw], s4u::Engine::get_clock() - draw * spacing_s);
  }
}

int main(int argc, char** argv)
{
  s4u::Engine engine(&argc, argv);
  const double chunk = std::ceil(std::atof(argv[1]) / ranks);
  const bool early   = std::string(argv[4]) == "early";
  std::ifstream file(argv[2]);
  starts_us.assign(std::atoi(argv[3]), std::vector<double>(ranks));
  took_s.assign(starts_us.size(), 0);
  for (auto& draw : starts_us)
    for (auto& start : draw)
      file >> start;
  auto* zone = s4u::create_full_zone("star");
  std::vector<s4u::Host*> hosts;
  std::vector<s4u::Link*> out, in;
  for (int own = 0; own < ranks; ++own) {
    const std::string name = std::to_string(own);
    hosts.push_back(zone->create_host("rank" + name, 1e9)->seal());
    out.push_back(zone->create_link("out" + name, 50e9)->set_latency(5e-6)->seal());
    in.push_back(zone->create_link("in" + name, 50e9)->set_latency(0)->seal());
    boxes.push_back(s4u::Mailbox::by_name("box" + name));
  }
  for (int own = 0; own < ranks; ++own) {
    const int next = (own + 1) % ranks;
    zone->add_route(hosts[own]->get_netpoint(), hosts[next]->get_netpoint(), nullptr, nullptr,
                    {s4u::LinkInRoute(out[own]), s4u::LinkInRoute(in[next])}, false);
  }
  zone->seal();
  for (int own = 0; own < ranks; ++own)
    s4u::Actor::create("rank" + std::to_string(own), hosts[own], rank, own, chunk, early);
  engine.run();
  for (const double took : took_s)
    std::printf("%.6f\n", took * 1e6);
  return 0;
}
